"""Tensors as the Open Inference Protocol has them: datatypes, and their raw contents.

A raw content has the elements row by row, little-endian, without padding; of a tensor of byte
strings each element is behind its length (four bytes, little-endian).
"""

from collections.abc import Iterable, Sequence
from math import prod

from esg.errors import Rejected

Piece = bytes | memoryview

BYTES = "BYTES"
SIZES = {
    "BOOL": 1,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "UINT64": 8,
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FP16": 2,
    "FP32": 4,
    "FP64": 8,
}
"""The bytes of an element. Byte strings have a length of their own."""
DATATYPES = (*SIZES, BYTES)

MOST_DIMENSIONS = 8
LARGEST_DIMENSION = 2**40
MOST_BYTE_STRINGS = 2**16
"""In one tensor: they are looked at one by one."""

_LENGTH_BYTES = 4


def behind_lengths(elements: Iterable[Piece]) -> list[Piece]:
    """The pieces of a tensor of byte strings.

    >>> behind_lengths([b"hi", b""])
    [b'\\x02\\x00\\x00\\x00', b'hi', b'\\x00\\x00\\x00\\x00', b'']
    """
    pieces: list[Piece] = []
    for element in elements:
        pieces += (len(element).to_bytes(_LENGTH_BYTES, "little"), element)
    return pieces


def elements_of(raw: Piece, most: int | None = None) -> list[memoryview]:
    """The byte strings in a raw content, not copied; no more are looked at than there may be.

    >>> [bytes(element) for element in elements_of(b"\\x02\\0\\0\\0hi\\0\\0\\0\\0")]
    [b'hi', b'']
    """
    view = memoryview(raw)
    found: list[memoryview] = []
    start = 0
    while start < len(view):
        if len(found) == most:
            raise Rejected(f"a tensor of byte strings has more than {most} elements; send as many")
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(view[start:begin], "little")
        if begin > len(view) or start > len(view):
            raise Rejected(
                f"a tensor of byte strings ends within element {len(found)}; send every element "
                "behind its length in four bytes"
            )
        found.append(view[begin:start])
    return found


def check_shape(shape: Sequence[int]) -> None:
    """Refuse a shape that no content can have."""
    if len(shape) > MOST_DIMENSIONS:
        raise Rejected(f"{len(shape)} dimensions; at most {MOST_DIMENSIONS} can be sent")
    if not all(0 <= length <= LARGEST_DIMENSION for length in shape):
        raise Rejected(f"shape {list(shape)}: a dimension is a whole number from 0 on")


def check_content(datatype: str, shape: Sequence[int], content: Piece) -> None:
    """Refuse a raw content that is not that of a tensor of this datatype and shape.

    >>> check_content("FP32", [2, 3], bytes(20))
    Traceback (most recent call last):
    esg.errors.Rejected: 20 bytes, where FP32 [2, 3] has 24; send as many
    """
    check_shape(shape)
    count = prod(shape)
    if datatype == BYTES:
        if count > MOST_BYTE_STRINGS:
            raise Rejected(f"{count} byte strings; at most {MOST_BYTE_STRINGS} can be in a tensor")
        found = len(elements_of(content, count))
        if found != count:
            raise Rejected(f"{found} byte strings, where shape {list(shape)} has {count}")
    elif len(content) != count * SIZES[datatype]:
        raise Rejected(
            f"{len(content)} bytes, where {datatype} {list(shape)} has {count * SIZES[datatype]}; "
            "send as many"
        )
