"""Messages of any kind that protobuf knows, with awkward contents; and bytes that are none."""

import math
import sys
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

AWKWARD_TEXTS = [
    "",
    "r1",
    "photo",
    "thumb",
    "n0",
    "t1",
    "t2",
    "resize",
    "detect",
    "depth",
    "3g.40gb",
    "cpu-2",
    "../../etc/passwd",
    "a/b",
    "a~b",
    "@",
    "photo@2",
    "\0",
    "\n",
    "\u202e",
    "x" * 101,
    "y" * 5000,
    "%s",
]
DEEPEST = 3
MOST = 3

AWKWARD_NUMBERS = [0.0, -0.0, 1.0, 1e-9, 1e12, 1e300, 1e308, sys.float_info.max]
AWKWARD_NUMBERS += [-number for number in AWKWARD_NUMBERS] + [5e-324, math.inf, math.nan]

texts = st.one_of(st.sampled_from(AWKWARD_TEXTS), st.text(st.characters(codec="utf-8"), max_size=8))


def whole_numbers(bits: int) -> st.SearchStrategy[int]:
    most = 2 ** (bits - 1) - 1
    awkward = [0, 1, 2, 8, -1, most, -most - 1, 10**6, 2**50, 2**53]
    return st.one_of(
        st.sampled_from([number for number in awkward if abs(number) <= most + 1]),
        st.integers(-most - 1, most),
    )


_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: texts,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=20),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: whole_numbers(32),
    FieldDescriptor.TYPE_INT64: whole_numbers(64),
    FieldDescriptor.TYPE_UINT32: whole_numbers(32).map(abs),
    FieldDescriptor.TYPE_UINT64: whole_numbers(64).map(abs),
    FieldDescriptor.TYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.TYPE_DOUBLE: st.one_of(st.sampled_from(AWKWARD_NUMBERS), st.floats()),
}


def any_message(kind: type[Message]) -> st.SearchStrategy[Any]:
    """Any message of this kind: every field may be there or not."""
    return _fields(kind.DESCRIPTOR, DEEPEST).map(lambda values: kind(**values))


def _fields(descriptor: Descriptor, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    optional = {}
    for field in descriptor.fields:
        one = _value(field, depth)
        if one is None:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries = st.lists(one, max_size=MOST)
            one = entries.map(lambda pairs: {p["key"]: p["value"] for p in pairs if len(p) == 2})
        elif field.is_repeated:
            one = st.lists(one, max_size=MOST)
        optional[field.name] = one
    return st.fixed_dictionaries({}, optional=optional)


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any] | None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _fields(field.message_type, depth - 1) if depth else None
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return _SCALARS[field.type]


def bytes_of(kind: type[Message]) -> st.SearchStrategy[bytes]:
    """A message's encoding, whole or spoilt, or noise."""
    encoded = any_message(kind).map(lambda message: message.SerializeToString())

    def spoil(encoding: bytes, place: float, instead: bytes) -> bytes:
        start = int(place * len(encoding))
        return encoding[:start] + instead + encoding[start + len(instead) :]

    spoilt = st.builds(spoil, encoded, st.floats(0, 1), st.binary(max_size=4))
    return st.one_of(encoded, spoilt, st.binary(max_size=40))
