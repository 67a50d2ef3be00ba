"""Journals: written, read back, replayed; and found out when something is wrong with them."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Function, Stage
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import all_alike
from esg.core.journal.format import (
    FORMAT,
    Header,
    JournalEntry,
    catalog_digest,
    entry_line,
    header_line,
    orders_digest,
    read_entries,
    read_header,
)
from esg.core.journal.replay import Diverged, replay
from esg.core.messages.events import Event, RequestArrived
from esg.core.scheduler.settings import SchedulerSettings
from esg.errors import Bug, Rejected
from tests.golden.regenerate import CATALOG, GOLDEN, WRONG, Run, emulate, new_scheduler
from tests.support.sealed import plain
from tests.unit.core.messages.test_codec import COMMAND_SAMPLES, EVENT_SAMPLES

HEADER = Header(catalog="c0ffee", settings=SchedulerSettings(k=7))


@pytest.fixture(scope="module")
def run() -> Run:
    return emulate(30, nodes=2)


@pytest.fixture(scope="module")
def entries(run: Run) -> list[JournalEntry]:
    return list(read_entries(run.lines[1:]))


def first(entries: list[JournalEntry], kind: str) -> int:
    """Where the first entry of this kind is that was followed by orders."""
    return next(i for i, e in enumerate(entries) if type(e.event).__name__ == kind and e.orders)


# Written and read.


def test_a_header_survives() -> None:
    assert read_header(header_line(HEADER)) == HEADER


@pytest.mark.parametrize("event", EVENT_SAMPLES)
def test_an_entry_survives_on_one_line(event: Event) -> None:
    entry = JournalEntry(12_000, event, orders_digest(COMMAND_SAMPLES))
    line = entry_line(entry)
    assert "\n" not in line
    assert list(read_entries([line + "\n"])) == [entry]


def test_a_digest_of_orders_tells_their_kind_their_content_and_their_sequence() -> None:
    first, second = COMMAND_SAMPLES[2:4]  # the same fields, another kind
    digests = [orders_digest(o) for o in ([], [first], [second], [first, second], [second, first])]
    assert digests[0] == ""
    assert len(set(digests)) == len(digests)


# Replayed.


def test_a_replay_ends_in_the_same_state(run: Run, entries: list[JournalEntry]) -> None:
    assert replay(new_scheduler(), entries).snapshot() == run.scheduler.snapshot()


def test_a_wrong_digest_is_found_where_it_is(entries: list[JournalEntry]) -> None:
    place = first(entries, "TaskFinished")
    told = entries[place]
    wrong = [*entries[:place], replace(told, orders="0" * 16), *entries[place + 1 :]]
    with pytest.raises(Diverged, match=f"entry {place + 1} at {told.now_us} us .TaskFinished") as e:
        replay(new_scheduler(), wrong)
    assert (e.value.position, e.value.got) == (place + 1, told.orders)


@pytest.mark.parametrize("kind", ["InvokerJoined", "RequestArrived", "TaskFinished"])
def test_a_missing_entry_is_found_at_the_next_order_it_changes(
    entries: list[JournalEntry], kind: str
) -> None:
    place = 0 if kind == "InvokerJoined" else first(entries, kind)
    with pytest.raises(Diverged) as e:
        replay(new_scheduler(), [*entries[:place], *entries[place + 1 :]])
    assert e.value.position > place


def test_a_changed_event_is_found_where_it_is(entries: list[JournalEntry]) -> None:
    place = first(entries, "RequestArrived")
    told = entries[place]
    other = RequestArrived(request="r1", application="no-such")
    changed = [*entries[:place], replace(told, event=other), *entries[place + 1 :]]
    with pytest.raises(Diverged) as e:
        replay(new_scheduler(), changed)
    assert e.value.position == place + 1


def test_entries_in_the_wrong_order_are_found(entries: list[JournalEntry]) -> None:
    place = first(entries, "RequestArrived")
    swapped = [*entries[:place], entries[place + 1], entries[place], *entries[place + 2 :]]
    with pytest.raises((Diverged, Bug)):
        replay(new_scheduler(), swapped)


def test_time_that_runs_backwards_is_found(entries: list[JournalEntry]) -> None:
    late = JournalEntry(entries[-1].now_us - 1, entries[0].event, "")
    with pytest.raises(Rejected, match=r"journal entry \d+: time runs backwards"):
        replay(new_scheduler(), [*entries, late])


# Refused.


@pytest.mark.parametrize(("field", "value"), [("journal", FORMAT + 1), ("esg", "99.0")])
def test_a_journal_of_another_version_is_refused_with_advice(field: str, value: object) -> None:
    raw = json.loads(header_line(HEADER)) | {field: value}
    with pytest.raises(Rejected, match=r"written by esg .* only the same one can replay it"):
        read_header(json.dumps(raw))


@pytest.mark.parametrize("line", ["", "{", "null", "[]", "{}", "[" * 100_000])
def test_a_line_that_is_no_header_is_refused(line: str) -> None:
    with pytest.raises(Rejected):
        read_header(line)


WOKE: dict[str, Any] = {"at": 1, "event": "Woke", "is": {}, "orders": ""}
GARBAGE = [
    *("", " ", "{", "null", "1", "[]", "{}", '"at"', "\x00", "[" * 100_000, "1" * 10_000),
    *(
        json.dumps(raw)
        for raw in (
            WOKE | {"more": 1},
            {"at": 1, "event": "Woke", "is": {}},
            *(WOKE | {"at": at} for at in (None, True, 1.0, "1", [1])),
            *(WOKE | {"event": kind} for kind in (None, "Slept", "StartTask", 1, [], {})),
            *(WOKE | {"is": event} for event in (None, [], "{}", {"at": 1})),
            *(WOKE | {"orders": orders} for orders in (None, 0, [], {})),
        )
    ),
]


@pytest.mark.parametrize("line", GARBAGE, ids=lambda line: line[:60])
def test_a_line_that_is_no_entry_is_refused_by_its_number(line: str) -> None:
    good = json.dumps(WOKE)
    with pytest.raises(Rejected, match=r"^journal line 4: "):
        list(read_entries([good, good, line, good]))


def test_a_torn_last_line_is_refused_by_its_number(run: Run) -> None:
    torn = run.lines[-1][: len(run.lines[-1]) // 2]
    with pytest.raises(Rejected, match=f"^journal line {len(run.lines)}: not an entry"):
        list(read_entries([*run.lines[1:-1], torn]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)
almost_entries = st.fixed_dictionaries(
    {
        "at": st.integers() | json_values,
        "event": st.sampled_from(["Woke", "InvokerLost"]) | json_values,
        "is": st.fixed_dictionaries({}, optional={"invoker": json_values}) | json_values,
        "orders": st.text() | json_values,
    }
)


@settings(max_examples=200, deadline=None)
@given(st.text() | json_values.map(json.dumps) | almost_entries.map(json.dumps))
@example('{"at":NaN,"event":Infinity,"is":{},"orders":""}')
def test_journal_line_is_an_entry_or_refused(line: str) -> None:
    try:
        (entry,) = read_entries([line])
    except Rejected:
        return
    bare = replace(entry, orders="")
    assert list(read_entries([entry_line(bare)])) == [bare]


# The content_hash of a catalog.


def catalog(
    *,
    time_us: int = 1000,
    slo_us: int = 9000,
    price: float = 0.5,
    last_after: tuple[str, ...] = ("a", "b"),
    memory_mb: int = 10,
    provenance: str = "",
    nodes: int = 2,
) -> Catalog:
    prices = Prices(vgpu_usd_per_hour=price)
    times_us = {Config(1, 1, 1): 500, Config(2, 1, 1): time_us}
    profile = Profile.of("f", times_us, prices, provenance=provenance)
    function = Function(
        name="f", profile=profile, cold_start_us=7, input_bytes=3, memory_mb=memory_mb
    )
    stages = [Stage("a", function), Stage("b", function, ("a",)), Stage("c", function, last_after)]
    return Catalog(
        functions={"f": function},
        applications={"app": Application.of("app", stages, slo_us=slo_us)},
        cluster=Cluster.alike(nodes=nodes, vcpus=4, vgpus=2),
        kinds=all_alike(10),
        prices=prices,
    )


@pytest.mark.parametrize(
    "other",
    [
        lambda: catalog(time_us=1001),
        lambda: catalog(slo_us=9001),
        lambda: catalog(price=0.6),
        lambda: catalog(last_after=("b",)),
        lambda: catalog(memory_mb=11),
    ],
)
def test_the_fingerprint_changes_with_what_decisions_depend_on(
    other: Callable[[], Catalog],
) -> None:
    assert catalog_digest(other()) != catalog_digest(catalog())


def test_the_fingerprint_is_the_same_for_the_same_catalog_and_for_what_does_not_matter() -> None:
    assert catalog_digest(catalog()) == catalog_digest(catalog())
    assert catalog_digest(catalog(provenance="measured", nodes=9)) == catalog_digest(catalog())


# Golden journals; tests/golden/regenerate.py says how to write them again.


def test_the_golden_journal_replays_to_its_recorded_orders() -> None:
    header, *lines = plain(GOLDEN)
    assert read_header(header).catalog == catalog_digest(CATALOG)
    scheduler = replay(new_scheduler(), read_entries(lines))
    assert scheduler.state.requests_admitted == 100
    assert scheduler.state.requests == {}


def test_the_golden_journal_with_a_mistake_is_found_out() -> None:
    right, wrong = plain(GOLDEN), plain(WRONG)
    places = [i for i, (a, b) in enumerate(zip(right, wrong, strict=True)) if a != b]
    with pytest.raises(Diverged) as e:
        replay(new_scheduler(), read_entries(wrong[1:]))
    assert [e.value.position] == places
