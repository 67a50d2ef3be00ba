"""What a journal tells of the mesh that wrote it: nodes, time, and what clients asked for.

No emulator wrote some of these: their header says nothing of nodes, and their clock is their own.
"""

import json
from pathlib import Path

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.journal.format import JournalEntry, catalog_digest
from esg.core.messages.events import (
    Event,
    InvokerLeaving,
    InvokerLost,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    Woke,
)
from esg.emulator.history import exogenous, replay_strictly, scenario_of
from esg.emulator.run import Emulation, emulate
from esg.emulator.scenario import applied
from esg.errors import Rejected
from esg.runtime.journal_files import read_journal
from tests.support.emulated_runs import paper, scenario
from tests.support.journal_cases import FIFTY, again, from_the_middle, record
from tests.support.journal_cases import recorded as recorded
from tests.support.sealed import plain, sealed
from tests.unit.emulator.test_repeating import without_clock


def test_a_journal_that_begins_in_the_middle_is_judged_by_its_own_requests(
    recorded: tuple[Path, Emulation], tmp_path: Path
) -> None:
    """Others were under way when it began, and their nodes had joined."""
    path = from_the_middle(recorded[0], tmp_path / "rest.journal", after=60)
    rest = replay_strictly(path, paper()).report
    coming = [e.event for e in read_journal(path) if isinstance(e.event, RequestArrived)]
    answered = sum(len(tally.latency_us) for tally in rest.applications.values())
    assert 0 < rest.arrived == len(coming) == answered < 50
    summary = rest.summary()
    assert max(summary["hit_rate_by_application"].values()) <= 1
    assert 0 < summary["vgpu_utilisation"] <= 1


@pytest.fixture
def live(recorded: tuple[Path, Emulation], tmp_path: Path) -> Path:
    """As a controller would have written it: on nodes that joined, long after time began."""
    header, *entries = map(json.loads, plain(recorded[0]))
    header["world"] = {}
    for entry in entries:
        entry["at"] += 10**15
    path = tmp_path / "live.journal"
    path.write_bytes(sealed(map(json.dumps, (header, *entries))))
    return path


def test_nodes_are_those_that_joined(live: Path) -> None:
    found = scenario_of(live)
    assert (found.nodes, found.vcpus, found.vgpus) == (3, 16, 7)
    assert found.warm_start


def test_a_mesh_that_was_cold_when_its_nodes_joined_is_cold_again(live: Path) -> None:
    header, *entries = map(json.loads, plain(live))
    for entry in entries:
        if entry["event"] == "InvokerJoined":
            for part in entry["is"]["slices"]:
                part["resident"] = []
    live.write_bytes(sealed(map(json.dumps, (header, *entries))))
    assert not scenario_of(live).warm_start


@pytest.mark.parametrize("warm", [True, False])
def test_a_journal_that_begins_in_the_middle_is_as_warm_as_its_nodes_were(
    warm: bool, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.journal"
    record(whole, scenario(nodes=3, warm_start=warm, prewarm=False))
    path = from_the_middle(whole, tmp_path / "rest.journal", after=3)  # the nodes have joined
    header, *rest = plain(path)
    told = json.loads(header)
    told["world"] = {}
    path.write_bytes(sealed([json.dumps(told), *rest]))
    assert scenario_of(path).warm_start == warm


def test_time_starts_with_the_journal(live: Path, recorded: tuple[Path, Emulation]) -> None:
    """Otherwise all models would have been idle for ages before the first request came."""
    assert without_clock(again(live, slo_scale=1.2).summary()) == without_clock(
        recorded[1].summary()
    )


def test_a_catalog_may_have_more_than_fits_the_nodes() -> None:
    """A live scheduler sees the whole catalog, also if no node of its is as large."""
    full = load_catalog()
    assert catalog_digest(full) != catalog_digest(applied(full, scenario(vgpus=2)))


def test_a_journal_without_nodes_is_refused(live: Path) -> None:
    live.write_text(live.read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    with pytest.raises(Rejected, match=r"no invoker ever joined.* to compare with$"):
        scenario_of(live)


def test_a_segment_without_nodes_is_told_from_its_journal(live: Path) -> None:
    header = live.read_text("utf-8").splitlines()[0] + "\n"
    for number in (1, 2):
        (live.parent / f"0000000{number}.journal").write_text(header, "utf-8")
    with pytest.raises(Rejected, match=f"; this is one segment of the journal {live.parent}$"):
        scenario_of(live.parent / "00000002.journal")


def told(*events: Event) -> list[tuple[int, Event]]:
    entries = [JournalEntry(100 + n, event, "") for n, event in enumerate(events)]
    return list(exogenous(entries, keep_slos=True))


def test_requests_and_cancellations_are_kept() -> None:
    came = RequestArrived(request="r1", application="photo", slo_us=5)
    gave_up = RequestCancelled(request="r1")
    assert told(Woke(), came, Woke(), gave_up) == [(1, came), (3, gave_up)]


def test_events_from_nodes_are_not_kept_for_another_emulation() -> None:
    corrected = ProfilesCorrected(corrections=())
    of_nodes = [InvokerLeaving(invoker="i0"), InvokerLost(invoker="i0"), Woke()]
    assert told(*of_nodes, corrected) == [(3, corrected)]


def test_a_request_that_was_said_twice_comes_once() -> None:
    came = RequestArrived(request="r1", application="photo")
    assert told(came, came) == [(0, came)]


def test_slos_of_requests_give_way_to_a_scale() -> None:
    own = JournalEntry(0, RequestArrived(request="r1", application="photo", slo_us=5), "")
    ((_, kept),) = exogenous([own], keep_slos=True)
    ((_, dropped),) = exogenous([own], keep_slos=False)
    assert kept == own.event
    assert dropped == RequestArrived(request="r1", application="photo")


def test_clients_who_gave_up_do_so_again(recorded: tuple[Path, Emulation]) -> None:
    applications = list(paper().applications)
    came: list[tuple[int, Event]] = list(FIFTY.arrivals(applications, 0))
    gave_up = [
        (at_us + 1000, RequestCancelled(request=f"r{n}"))
        for n, (at_us, _) in enumerate(came[:5], 1)
    ]
    events = sorted([*came, *gave_up], key=lambda pair: pair[0])
    emulation = emulate(paper(), scenario(), events)
    assert emulation.summary()["cancelled"] == 5


def test_a_journal_of_a_mesh_with_a_time_scale_is_replayed_in_its_time(tmp_path: Path) -> None:
    path = tmp_path / "fast.journal"
    emulation = record(path, scenario(nodes=3, time_scale=0.1))
    assert scenario_of(path).time_scale == 0.1
    assert replay_strictly(path, paper()).digest == emulation.digest
