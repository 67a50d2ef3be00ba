"""Several named contents as one blob: what travels where a payload is not just bytes.

Payloads and outputs are blobs to the mesh. A function that declares tensors, or several inputs or
outputs, has them in one blob that describes itself:

    89 45 53 47 70 31 0d 0a    the mark, with "ESGp1" in it
    4 bytes                    the length of the header, little-endian
    header                     JSON, padded with spaces: [[name, datatype, shape, bytes], ...]
    contents                   one behind the other, each padded to a multiple of 8 bytes

A part without a datatype is bytes as they are, a file for one. All others are tensors (`tensors`).
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from esg.errors import Rejected
from esg.suggest import shortened
from esg.tensors import DATATYPES, Piece, check_content

MARK = b"\x89ESGp1\r\n"
MOST_PARTS = 64
LONGEST_NAME = 100
LARGEST_HEADER = 2**16

NAMELESS = "-"
"""The name of the one part of a client that does not say which input it is."""

_LENGTH_BYTES = 4
_ALIGNED = 8
_START = len(MARK) + _LENGTH_BYTES


class Part(NamedTuple):
    """A named content; with a datatype it is a tensor."""

    name: str
    content: Piece
    datatype: str = ""
    shape: tuple[int, ...] = ()


def packed(parts: Iterable[Part]) -> bytes:
    """A blob of them. Whether they are what they say is for whoever reads it.

    >>> unpacked(packed([Part("shades", b"\\1\\2", "UINT8", (2,)), Part("note", b"{}")]))[0].shape
    (2,)
    """
    given = list(parts)
    rows = [[p.name, p.datatype, list(p.shape), len(p.content)] for p in given]
    header = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-(_START + len(header)) % _ALIGNED)
    pieces: list[Piece] = [MARK, len(header).to_bytes(_LENGTH_BYTES, "little"), header]
    for part in given:
        pieces += (part.content, bytes(-len(part.content) % _ALIGNED))
    return b"".join(pieces)


def is_packed(blob: Piece) -> bool:
    return blob[: len(MARK)] == MARK


def unpacked(blob: Piece) -> list[Part]:
    """The parts of a blob, whose contents are not copied; refused unless all of it is right."""
    view = memoryview(blob)
    if not is_packed(view):
        raise Rejected("these bytes are no named parts; send what the client packs")
    rows, start = _header(view)
    found: list[Part] = []
    for row in rows:
        name, datatype, shape, size = _row(row)
        end = start + size
        if end > len(view):
            raise Rejected(f"part {name!r} ends behind the end of the payload; send all of it")
        content = view[start:end]
        if datatype:
            try:
                check_content(datatype, shape, content)
            except Rejected as error:
                raise Rejected(f"part {name!r}: {error}") from None
        found.append(Part(name, content, datatype, shape))
        start = end + -size % _ALIGNED
    if start != len(view):
        raise Rejected(f"the parts have {start} bytes, and the payload {len(view)}; send no others")
    names = [part.name for part in found]
    if len(set(names)) != len(names):
        raise Rejected(f"parts {shortened(', '.join(names))}: each has a name of its own")
    return found


def _header(view: memoryview) -> tuple[list[Any], int]:
    """What the header says, and where the contents begin."""
    size = int.from_bytes(view[len(MARK) : _START], "little")
    start = _START + size
    if size > LARGEST_HEADER or start > len(view):
        raise Rejected("the header of the parts is longer than it may be; send what was packed")
    try:
        rows = json.loads(bytes(view[_START:start]))
    except (ValueError, RecursionError):
        raise Rejected("the header of the parts is no JSON; send what was packed") from None
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_PARTS:
        raise Rejected(f"the header of the parts is no list of 1 to {MOST_PARTS} of them")
    return rows, start


def _row(row: Any) -> tuple[str, str, tuple[int, ...], int]:
    match row:
        case [str(name), str(datatype), list(shape), int(size)] if (
            0 < len(name) <= LONGEST_NAME
            and name.isprintable()
            and (datatype in DATATYPES or (not datatype and not shape))
            and all(type(length) is int for length in shape)
            and type(size) is int
            and size >= 0
        ):
            return name, datatype, tuple(shape), size
    raise Rejected(
        f"a part is {shortened(repr(row))}; it must be a name, a datatype, a shape and a size"
    )
