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
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from esg.errors import Rejected

T = TypeVar("T")
_SCALARS = (int, str, bool, float, type(None))


def to_text(value: Any) -> str:
    """Compact and canonical JSON: equal values give equal text. Dataclasses become objects."""
    return _writer(cast(Any, type(value)))(value)


def encode(value: Any) -> Any:
    """A value as JSON's own types."""
    return json.loads(to_text(value))


def decode(kind: type[T], raw: Any) -> T:
    """The value of this type, or a Rejected that says where it does not fit."""
    read = _reader(cast(Any, kind))
    try:
        return cast(T, read(raw))
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise Rejected(f"not a {kind.__name__}: {str(error)[:200]}") from None


def digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _optional(kind: Any) -> Any:
    """X, if the type is "X or None"; other unions have no one way back."""
    inner = [part for part in get_args(kind) if part is not type(None)]
    if len(inner) != 1 or len(inner) == len(get_args(kind)):
        raise TypeError(f"{kind}: only unions with None are supported")
    return inner[0]


def _is_row(kind: Any) -> bool:
    """list[X] or tuple[X, ...]"""
    origin, arguments = get_origin(kind), get_args(kind)
    return origin is list or (origin is tuple and arguments[1:] == (...,))


@cache
def _writer(kind: Any) -> Callable[[Any], str]:
    """How to write a value of this type; worked out once per type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is str:
        return encode_basestring
    if kind is int:
        return int.__repr__
    if kind is bool:
        return lambda value: "true" if value else "false"
    if kind in _SCALARS:
        return json.dumps
    if origin in (types.UnionType, Union):
        some = _writer(_optional(kind))
        return lambda value: "null" if value is None else some(value)
    if _is_row(kind):
        item = _writer(arguments[0])
        return lambda value: f"[{','.join(map(item, value))}]"
    if origin is dict and arguments[0] is str:
        entry = _writer(arguments[1])
        return lambda value: (
            "{" + ",".join(f"{encode_basestring(k)}:{entry(v)}" for k, v in value.items()) + "}"
        )
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: encode_basestring(value.value)
    hints = get_type_hints(kind)
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        parts = [_writer(hints[name]) for name in kind._fields]
        return lambda value: (
            f"[{','.join([part(x) for part, x in zip(parts, value, strict=True)])}]"
        )
    if is_dataclass(kind):
        return _dataclass_writer({f.name: _writer(hints[f.name]) for f in fields(kind)})
    raise TypeError(f"{kind}: the codec does not know this type")


def _dataclass_writer(parts: dict[str, Callable[[Any], str]]) -> Callable[[Any], str]:
    if not parts:
        return lambda _: "{}"
    if len(parts) == 1:
        ((name, only),) = parts.items()
        return lambda value: f'{{"{name}":{only(getattr(value, name))}}}'
    get_all = attrgetter(*parts)
    labelled = [(f'"{name}":', part) for name, part in parts.items()]

    def write(value: Any) -> str:
        written = [
            label + part(item) for (label, part), item in zip(labelled, get_all(value), strict=True)
        ]
        return "{" + ",".join(written) + "}"

    return write


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """How to build a value of this type; worked out once per type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return lambda raw: _checked(kind, raw)
    if origin in (types.UnionType, Union):
        some = _reader(_optional(kind))
        return lambda raw: None if raw is None else some(raw)
    if _is_row(kind):
        item = _reader(arguments[0])
        return lambda raw: origin(item(part) for part in _checked(list, raw))
    if origin is dict and arguments[0] is str:
        entry = _reader(arguments[1])
        return lambda raw: {key: entry(part) for key, part in _checked(dict, raw).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    hints = get_type_hints(kind)
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        parts = [_reader(hints[name]) for name in kind._fields]
        return lambda raw: kind(
            *(part(x) for part, x in zip(parts, _checked(list, raw), strict=True))
        )
    if is_dataclass(kind):
        return _dataclass_reader(kind, {f.name: _reader(hints[f.name]) for f in fields(kind)})
    raise TypeError(f"{kind}: the codec does not know this type")


def _dataclass_reader(kind: Any, parts: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
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
