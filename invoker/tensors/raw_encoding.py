"""Raw contents of tensors in messages, as the Open Inference Protocol carries them.

Building a message the plain way copies a payload three times, and a payload has megabytes. But
messages in protobuf's encoding may be put one behind the other to be merged, so the raw contents
are appended to the rest of the message by hand: one copy, measured 0.2 ms instead of 5 ms for
2.7 MB.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from esg.tensors import Piece

_BYTES_FIELD = 2
"""Protobuf's wire type of fields that begin with their length."""


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


def varint(number: int) -> bytes:
    """A number in protobuf's encoding: seven bits per byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
