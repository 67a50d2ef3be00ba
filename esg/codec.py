"""Plain values to JSON and back, guided by their types.

One codec serves three masters: events in a journal, digests of orders, and snapshots of a state.
It knows dataclasses, named tuples, enums, tuples, lists, dictionaries with text keys, and JSON's
own types; anything else is an error when the codec is built, not when a disk is full of it. There
is no pickle and no class name on the wire that could choose what code runs.

>>> from esg.profile import Config
>>> encode(Config(2, 4, 1))
[2, 4, 1]
>>> decode(Config, [2, 4, 1])
Config(batch=2, vcpus=4, vgpus=1)
"""

import json
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from esg.errors import Rejected

T = TypeVar("T")
_SCALARS = (int, str, bool, float, type(None))


def encode(value: Any) -> Any:
    """A value as JSON's types. Dataclasses become objects by field name."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {key: encode(item) for key, item in value.items()}
    if kind is tuple or kind is list or hasattr(kind, "_fields"):
        return [encode(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    names, values = _getter(cast(Any, kind))
    return {name: encode(item) for name, item in zip(names, values(value), strict=True)}


def decode(kind: type[T], raw: Any) -> T:
    """The value of this type, or a Rejected that says where it does not fit."""
    try:
        return cast(T, _decoder(cast(Any, kind))(raw))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise Rejected(f"not a {kind.__name__}: {error!r}") from None


def to_text(value: Any) -> str:
    """Compact and canonical: equal values give equal text."""
    return json.dumps(encode(value), separators=(",", ":"), ensure_ascii=False)


def digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


@cache
def _getter(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(field.name for field in fields(kind))
    if not names:
        return names, lambda _: ()
    if len(names) == 1:
        get_one = attrgetter(names[0])
        return names, lambda value: (get_one(value),)
    return names, attrgetter(*names)


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """How to build a value of this type; built once per type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return lambda raw: _checked(kind, raw)
    if origin in (types.UnionType, Union):
        inner = [part for part in arguments if part is not type(None)]
        if len(inner) != 1 or len(inner) == len(arguments):
            raise TypeError(f"{kind}: only unions with None are supported")
        some = _decoder(inner[0])
        return lambda raw: None if raw is None else some(raw)
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        item = _decoder(arguments[0])
        return lambda raw: origin(item(part) for part in _checked(list, raw))
    if origin is dict and arguments[0] is str:
        entry = _decoder(arguments[1])
        return lambda raw: {_checked(str, key): entry(part) for key, part in raw.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    hints = get_type_hints(kind)
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        parts = [_decoder(hints[name]) for name in kind._fields]
        return lambda raw: kind(*(part(x) for part, x in zip(parts, raw, strict=True)))
    if is_dataclass(kind):
        return _dataclass_decoder(kind, {f.name: _decoder(hints[f.name]) for f in fields(kind)})
    raise TypeError(f"{kind}: the codec does not know this type")


def _dataclass_decoder(kind: Any, parts: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def build(raw: Any) -> Any:
        unknown = [name for name in _checked(dict, raw) if name not in parts]
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r}")
        return kind(**{name: parts[name](item) for name, item in raw.items()})

    return build


def _checked(kind: type, raw: Any) -> Any:
    """JSON's own types, exactly: True is not 1, and 1 is not '1'."""
    if type(raw) is not kind:
        raise TypeError(f"{raw!r} is not {kind.__name__}")
    return raw
