"""Any value survives the codec, and anything else is refused in one way only."""

from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from esg.core.journal.format import Header
from esg.core.messages.codec import decode, digest, encode, to_text
from esg.core.messages.commands import Command
from esg.core.messages.events import EVENTS
from esg.core.state.state import State
from esg.errors import Rejected

KINDS = [*EVENTS, *get_args(Command), State, Header]
kinds = st.sampled_from(KINDS)
often = settings(max_examples=400, deadline=None)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
"""Without lone surrogates: what is sent and written is UTF-8, which has none."""
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
counts = st.integers(min_value=1)
"""As settings that have bounds may be."""
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@cache
def struct_values(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """All values of a record, which may have records of its own kind in it."""

    def fields() -> st.SearchStrategy[Any]:
        hints = get_type_hints(kind)
        return st.builds(kind, **{n: values(hints[n]) for n in kind.__struct_fields__})

    return st.deferred(fields)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """All values of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):  # the latter if a name was written as a string
        return st.one_of(*map(values, arguments))
    if origin in (list, tuple):
        return st.lists(values(arguments[0]), max_size=2).map(origin)
    if origin is dict:
        return st.dictionaries(texts, values(arguments[1]), max_size=2)
    if kind is None:
        return st.none()
    if kind is str:
        return texts
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)  # JSON has neither
    if kind is Any:
        return texts
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(
            kind, **{n: counts if h in (int, int | None) else values(h) for n, h in hints.items()}
        )
    if issubclass(kind, msgspec.Struct):
        return struct_values(kind)
    if hasattr(kind, "_fields"):
        return st.builds(kind, *map(values, get_type_hints(kind).values()))
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return st.from_type(kind)


STRATEGIES = {kind: values(kind) for kind in KINDS}


@often
@given(kind=kinds, data=st.data())
def test_codec_gives_back_any_value(kind: Any, data: st.DataObject) -> None:
    value = data.draw(STRATEGIES[kind])
    again = decode(kind, encode(value))
    assert again == value
    assert to_text(again) == to_text(value)


@often
@given(kind=kinds, raw=anything)
def test_anything_is_read_as_it_is_or_refused(kind: Any, raw: Any) -> None:
    read_or_refuse(kind, raw)


@often
@given(kind=kinds, data=st.data())
def test_a_value_with_something_changed_is_read_as_it_is_or_refused(
    kind: Any, data: st.DataObject
) -> None:
    raw = encode(data.draw(STRATEGIES[kind]))
    read_or_refuse(kind, data.draw(changed(raw)))


def read_or_refuse(kind: Any, raw: Any) -> None:
    try:
        value = decode(kind, raw)
    except Rejected:
        return
    assert says(encode(value), raw)
    assert len(digest(to_text(value))) == 16


def says(written: Any, raw: Any) -> bool:
    """The same JSON, types included, apart from fields that were left out and have a default."""
    if type(written) is not type(raw):
        return False
    if isinstance(raw, dict):
        return all(key in written and says(written[key], raw[key]) for key in raw)
    if isinstance(raw, list):
        return len(written) == len(raw) and all(map(says, written, raw))
    return bool(written == raw)


@st.composite
def changed(draw: st.DrawFn, raw: Any) -> Any:
    """Some JSON with one place in it, at any depth, replaced, removed or added."""
    if not isinstance(raw, dict | list) or not raw or draw(st.integers(0, 4)) == 0:
        return draw(anything)
    if isinstance(raw, list):
        place = draw(st.integers(0, len(raw) - 1))
        part = draw(st.lists(changed(raw[place]), max_size=2))
        return [*raw[:place], *part, *raw[place + 1 :]]
    key = draw(st.sampled_from(sorted(raw)))
    action = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
    if action == "add":
        return raw | {draw(texts): draw(anything)}
    rest = {name: part for name, part in raw.items() if name != key}
    return rest if action == "remove" else rest | {key: draw(changed(raw[key]))}
