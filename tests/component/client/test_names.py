"""What `from esg.client import ...` gives."""

import typing
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest

from esg import client
from esg.core.catalog.config import Config
from esg.core.catalog.late_requests import LateRequests
from esg.core.messages.outcome import Outcome


def parts_of(hint: Any) -> Iterator[Any]:
    """The types that an annotation is made of."""
    yield hint
    for part in typing.get_args(hint):
        yield from parts_of(part)


def reached_from(start: type) -> Iterator[type]:
    """The client's own types that methods and fields take or give, and theirs in turn."""
    seen: set[type] = set()
    ahead = [start]
    while ahead:
        one = ahead.pop()
        if one in seen:
            continue
        seen.add(one)
        yield one
        methods = [m for n, m in vars(one).items() if n[0] != "_" and isinstance(m, FunctionType)]
        for hinted in (one, *methods):
            for hint in typing.get_type_hints(hinted).values():
                ahead += [
                    part
                    for part in parts_of(hint)
                    if isinstance(part, type) and part.__module__.startswith("esg.client.")
                ]


@pytest.mark.parametrize("start", [client.Client, client.AsyncClient])
def test_types_that_the_client_takes_or_gives_can_be_imported(start: type) -> None:
    missing = {one.__name__ for one in reached_from(start)} - set(client.__all__)
    assert missing == set()


def test_the_names_of_all_are_there() -> None:
    assert [name for name in client.__all__ if not hasattr(client, name)] == []


def test_the_types_that_the_core_has_too_are_the_cores() -> None:
    assert (client.Config, client.Outcome, client.LateRequests) == (Config, Outcome, LateRequests)
