"""Tensors of byte strings, as the Open Inference Protocol carries them.

A BYTES tensor travels as one raw content: every element, row by row, behind its length (four bytes,
little-endian). Building such a message the plain way copies a payload three times, and a payload
has megabytes. But messages in protobuf's encoding may be put one behind the other to be merged, so
the raw content is appended to the rest of the message by hand: one copy, measured 0.2 ms instead of
5 ms for 2.7 MB.
"""

from collections.abc import Iterable
from typing import Any

from esg.errors import Rejected

_LENGTH_BYTES = 4
_BYTES_FIELD = 2
"""Protobuf's wire type of fields that begin with their length."""


def serialized(message: Any, field: str, elements: Iterable[bytes | memoryview]) -> bytes:
    """A message in protobuf's encoding, with the elements as raw content in `field`."""
    parts: list[bytes | memoryview] = [b""]
    size = 0
    for element in elements:
        parts.append(len(element).to_bytes(_LENGTH_BYTES, "little"))
        parts.append(element)
        size += _LENGTH_BYTES + len(element)
    number = message.DESCRIPTOR.fields_by_name[field].number
    parts[0] = message.SerializeToString() + _varint(number << 3 | _BYTES_FIELD) + _varint(size)
    return b"".join(parts)


def nested(message: Any, field: str, content: bytes) -> bytes:
    """A message in protobuf's encoding, with another one, encoded already, in `field`."""
    number = message.DESCRIPTOR.fields_by_name[field].number
    return b"".join(
        (
            message.SerializeToString(),
            _varint(number << 3 | _BYTES_FIELD),
            _varint(len(content)),
            content,
        )
    )


def elements_of(raw: bytes) -> list[memoryview]:
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


def _varint(number: int) -> bytes:
    """A number in protobuf's encoding: seven bits per byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
