"""The codec: plain values to JSON and back, guided by their types.

One codec serves three masters: events in a journal, digests of orders, and snapshots of a state.
All of those are built of the two kinds of record below, with named tuples, enums, tuples, lists,
dictionaries with text keys, and JSON's own types in them. There is no pickle and no class name on
the wire that could choose what code runs, and what a record does not know is refused.

The work is done by msgspec, in C: a scheduler makes and writes down a dozen records per task. They
form trees, never cycles, so the cyclic garbage collector need not look at them (`gc=False`).

>>> from esg.core.catalog.config import Config
>>> encode(Config(2, 4, 1, "3g.40gb"))
[2, 4, 1, '3g.40gb']
>>> decode(Config, [2, 4, 1])
Config(batch=2, vcpus=4, vgpus=1, kind='')
"""

import json
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from esg.errors import Rejected

T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A fact or an order: it is passed on, and never changes."""


class Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A piece of memory: it changes, and can be written down as it is at any time."""


to_bytes = msgspec.json.Encoder().encode
"""Compact and canonical JSON: equal values give equal bytes. Records become objects."""


def to_text(value: Any) -> str:
    """A value as JSON's text."""
    return to_bytes(value).decode()


def encode(value: Any) -> Any:
    """A value as JSON's own types."""
    return json.loads(to_bytes(value))


def decode(kind: type[T], raw: Any) -> T:
    """The value of this type, or a Rejected that says where it does not fit."""
    try:
        return msgspec.convert(raw, kind)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
        raise Rejected(f"not a {kind.__name__}: {str(error)[:200]}") from None


class Fingerprint:
    """A digest of values that come one after the other: the same in the same order have the
    same."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=8)

    def add(self, value: Any) -> None:
        self._hash.update(_packed(value))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


_packed = msgspec.msgpack.Encoder().encode  # fewer bytes than JSON, and only for digests


def digest(text: str) -> str:
    return digest_of(text.encode("utf-8", "surrogatepass"))


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
