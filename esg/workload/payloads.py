"""Pictures to send: those of a folder, or generated ones of the size that the catalog says.

Generated pictures are PNG files of noise, which nothing on the way can squeeze: one per
application, as large as its first function's input in the catalog (the paper's sizes), times a
scale. Pictures out of a folder are taken in turn: request n gets the n-th, whoever sends it.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import isqrt
from pathlib import Path
from random import Random

from esg.errors import Rejected

FOLDER_BYTES = 256 * 2**20
"""What is kept of a folder, so that no request has to wait for a disk."""

_HEADER_BYTES = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Where pictures come from: a description that can be handed to another process."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def largest(self) -> int:
        """In bytes, about."""
        if self.folder is not None:
            return max(map(len, read_folder(self.folder)))
        return max(self.sizes.values(), default=0)

    def taken(self, first: int, step: int) -> Callable[[str], bytes]:
        """For one sender: what an application's next request carries. See `send.LoadSpec`."""
        if self.folder is None:
            return {name: png(size, seed=name) for name, size in self.sizes.items()}.__getitem__
        contents, numbers = read_folder(self.folder), count(first - 1, step)
        return lambda application: contents[next(numbers) % len(contents)]


def read_folder(folder: Path) -> list[bytes]:
    """All files of a folder by name, as many as fit into `FOLDER_BYTES`; the first one always."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file())
        contents: list[bytes] = []
        left = FOLDER_BYTES
        for path in paths:
            if path.name.startswith("."):
                continue
            if contents and path.stat().st_size > left:
                break
            contents.append(path.read_bytes())
            left -= len(contents[-1])
    except OSError as error:
        raise Rejected(
            f"--payload: {error.filename}: {error.strerror}; name a folder of pictures"
        ) from None
    if not contents:
        raise Rejected(f"--payload: {folder} has no files; name a folder of pictures")
    return contents


def png(size: int, seed: str) -> bytes:
    """A square picture of noise, of about so many bytes; the smallest has one pixel.

    >>> picture = png(100_000, seed="a")
    >>> picture[1:4], 99_000 < len(picture) < 101_000
    (b'PNG', True)
    """
    side = max(1, isqrt(max(0, size - _HEADER_BYTES) // 3))
    random = Random(seed)
    # Every line begins with a byte that says how it is filtered: not at all
    lines = b"".join(b"\0" + random.randbytes(3 * side) for _ in range(side))
    eight_bit_rgb = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", eight_bit_rgb), (b"IDAT", zlib.compress(lines, 1)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
