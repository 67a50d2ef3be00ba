"""Pixels as a picture's file: an uncompressed PNG, which whoever reads pictures can read."""

import zlib
from collections.abc import Sequence

from esg.tensors import Piece

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's kinds of pixels, by how many bytes one has: grey, grey and alpha, RGB, RGBA."""
CHANNELS = tuple(_COLOURS)


def png(shape: Sequence[int], pixels: Piece) -> bytes:
    """The file of a picture of height × width × channels.

    >>> png((1, 1, 3), b"\\xff\\0\\0")[:4]
    b'\\x89PNG'
    """
    height, width, channels = shape
    row = width * channels
    view = memoryview(pixels)
    # Each row begins with how it was filtered: not at all
    lines = b"".join(
        part for start in range(0, height * row, row) for part in (b"\0", view[start : start + row])
    )
    sides = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    header = sides + bytes((8, _COLOURS[channels], 0, 0, 0))
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 0)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return b"".join((len(content).to_bytes(4, "big"), kind, content, checksum.to_bytes(4, "big")))
