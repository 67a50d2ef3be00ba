"""Raw contents of tensors in messages, as the Open Inference Protocol carries them.

Building a message the plain way copies a payload three times, and a payload has megabytes. But
messages in protobuf's encoding may be put one behind the other to be merged, so the raw contents
are appended to the rest of the message by hand: one copy, measured 0.2 ms instead of 5 ms for
2.7 MB. A tensor of byte strings has every element, row by row, behind its length (four bytes,
little-endian).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from esg.errors import Rejected

Piece = bytes | memoryview

_LENGTH_BYTES = 4
_BYTES_FIELD = 2
"""Protobuf's wire type of fields that begin with their length."""


def behind_lengths(elements: Iterable[Piece]) -> list[Piece]:
    """The pieces of a tensor of byte strings.

    >>> behind_lengths([b"hi", b""])
    [b'\\x02\\x00\\x00\\x00', b'hi', b'\\x00\\x00\\x00\\x00', b'']
    """
    pieces: list[Piece] = []
    for element in elements:
        pieces += (len(element).to_bytes(_LENGTH_BYTES, "little"), element)
    return pieces


def serialized(message: Any, field: str, contents: Iterable[Sequence[Piece]]) -> bytes:
    """A message in protobuf's encoding, with raw contents, or messages that are encoded already,
    each in pieces, in `field`."""
    key = field_key(message, field)
    parts: list[Piece] = [message.SerializeToString()]
    for pieces in contents:
        parts += (key, varint(sum(map(len, pieces))), *pieces)
    return b"".join(parts)


def field_key(message: Any, field: str) -> bytes:
    """What a field of bytes, or of a message, begins with in protobuf's encoding."""
    number = message.DESCRIPTOR.fields_by_name[field].number
    return varint(number << 3 | _BYTES_FIELD)


def elements_of(raw: Piece) -> list[memoryview]:
    """The byte strings in a raw content, not copied.

    >>> [bytes(element) for element in elements_of(b"\\x02\\0\\0\\0hi\\0\\0\\0\\0")]
    [b'hi', b'']
    """
    view = memoryview(raw)
    found: list[memoryview] = []
    start = 0
    while start < len(view):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(view[start:begin], "little")
        if begin > len(view) or start > len(view):
            raise Rejected(
                f"a tensor of byte strings ends within element {len(found)}; send every element "
                "behind its length in four bytes"
            )
        found.append(view[begin:start])
    return found


def varint(number: int) -> bytes:
    """A number in protobuf's encoding: seven bits per byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
