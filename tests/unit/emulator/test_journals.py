"""Journals of runs: replayed strictly, and lived through again under other conditions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.journal.format import JournalEntry, catalog_digest, read_entries, snapshot_line
from esg.core.journal.replay import Diverged, replay
from esg.core.messages.codec import to_text
from esg.core.messages.commands import AnswerRequest, Command
from esg.core.messages.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Correction,
    Event,
    InvokerLeaving,
    InvokerLost,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    StageSpec,
    Woke,
)
from esg.core.scheduler.scheduler import build_scheduler
from esg.emulator.history import Recorded, catalog_of, exogenous, replay_strictly, scenario_of
from esg.emulator.run import Emulation, emulate
from esg.emulator.scenario import Scenario, applied
from esg.emulator.sweep import Generated
from esg.errors import Rejected
from esg.runtime.journal_files import cut_torn_end, read_journal
from esg.workload.plan import Workload
from tests.support.emulated_runs import paper, scenario
from tests.support.small_catalog import SMALL
from tests.unit.emulator.test_repeating import without_clock

FIFTY = Generated(Workload(rate="heavy", requests=50))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Emulation]:
    path = tmp_path_factory.mktemp("journals") / "run.journal"
    return path, record(path, scenario(nodes=3))


def record(path: Path, conditions: Scenario) -> Emulation:
    with path.open("w", encoding="utf-8") as file:
        arrivals = FIFTY.arrivals(list(paper().applications), conditions.seed)
        return emulate(paper(), conditions, arrivals, journal=file)


def again(path: Path, **changes: Any) -> Emulation:
    conditions = replace(scenario_of(path), **changes)
    source = Recorded(journal=path, keep_slos="slo_scale" not in changes)
    return emulate(paper(), conditions, source.arrivals(list(paper().applications), 0))


def edited(path: Path, tmp_path: Path, number: int, **changes: Any) -> Path:
    """The journal with another line of this number."""
    lines = path.read_text("utf-8").splitlines()
    lines[number] = json.dumps(json.loads(lines[number]) | changes)
    copy = tmp_path / "edited.journal"
    copy.write_text("\n".join(lines) + "\n", "utf-8")
    return copy


def test_a_replay_is_the_run(recorded: tuple[Path, Emulation]) -> None:
    path, emulation = recorded
    replayed = replay_strictly(path, paper())
    assert replayed.digest == emulation.digest
    assert replayed.report.summary() == emulation.report.summary()
    assert replayed.entries == len(path.read_text("utf-8").splitlines()) - 1


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "infless"},
        {"policy": "orion", "slo_scale": 0.8},
        {"engine": "astar", "k": 2},
        {"warm_start": False, "prewarm": False},
        {"batching": False, "locality": False, "slo_scale": None},
        {"gpu_sharing": False, "vcpus": 8},
        {"noise": 2, "overhead": "none", "seed": 3},
    ],
    ids=str,
)
def test_a_journal_knows_its_conditions(tmp_path: Path, changes: dict[str, Any]) -> None:
    path, conditions = tmp_path / "run.journal", scenario(**{"nodes": 4, **changes})
    emulation = record(path, conditions)
    assert scenario_of(path) == conditions
    assert replay_strictly(path, paper()).digest == emulation.digest
    assert again(path).digest == emulation.digest


def test_a_journal_has_what_its_policy_had_learnt(tmp_path: Path) -> None:
    learnt = {
        name: dict.fromkeys(application.stages, Config(2, 4, 1))
        for name, application in paper().applications.items()
    }
    path = tmp_path / "run.journal"
    emulation = record(path, scenario(policy="aquatope", nodes=3, trained=learnt))
    assert scenario_of(path).trained == learnt
    assert replay_strictly(path, paper()).digest == emulation.digest


def test_journal_emulated_under_the_same_conditions_gives_the_same_answers(
    recorded: tuple[Path, Emulation],
) -> None:
    path, emulation = recorded
    assert without_clock(again(path).summary()) == without_clock(emulation.summary())


def test_other_conditions_get_the_same_requests(recorded: tuple[Path, Emulation]) -> None:
    path, emulation = recorded
    for changes in ({"policy": "orion"}, {"nodes": 16}, {"slo_scale": 3.0}):
        other = again(path, **changes)
        assert other.digest != emulation.digest
        for name, tally in emulation.report.applications.items():
            assert other.report.applications[name].arrived == tally.arrived
    assert again(path, nodes=16).summary()["slo_hit_rate"] > emulation.summary()["slo_hit_rate"]


def test_a_changed_order_is_found(recorded: tuple[Path, Emulation], tmp_path: Path) -> None:
    path = edited(recorded[0], tmp_path, 20, orders="0" * 16)
    with pytest.raises(Diverged, match="entry 20 at "):
        replay_strictly(path, paper())


def test_time_that_runs_backwards_is_refused(
    recorded: tuple[Path, Emulation], tmp_path: Path
) -> None:
    path = edited(recorded[0], tmp_path, -1, at=0)
    with pytest.raises(Rejected, match=r"edited.journal: journal entry \d+: time runs backwards"):
        replay_strictly(path, paper())


def test_another_catalog_is_refused(recorded: tuple[Path, Emulation]) -> None:
    with pytest.raises(Rejected, match="written with another catalog; name it with --catalog"):
        replay_strictly(recorded[0], SMALL)


def test_a_torn_journal_is_refused_by_its_line(
    recorded: tuple[Path, Emulation], tmp_path: Path
) -> None:
    text = recorded[0].read_text("utf-8")
    path = tmp_path / "torn.journal"
    path.write_text(text[:-10], "utf-8")
    with pytest.raises(Rejected, match=f"torn.journal: line {text.count(chr(10))} is torn"):
        replay_strictly(path, paper())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty, so it is no journal"),
        (b"\xff\xfe\x00\n", "not a journal: it is not text"),
        (b"at_us,application\n5,photo\n", "journal line 1: not JSON"),
        (b"{}\n", "header"),
        (b'{"journal":4,"esg":"9","catalog":"","policy":"esg","settings":{}}\n', "only the same"),
    ],
)
def test_file_that_is_no_journal_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(Rejected, match=f"^{path}: .*{words}"):
        replay_strictly(path, paper())


@pytest.mark.parametrize(
    ("where", "words"),
    [("nowhere.journal", "cannot be read: "), (".", "no segment of a journal")],
)
def test_journal_that_cannot_be_read_is_refused(where: str, words: str) -> None:
    with pytest.raises(Rejected, match=f"^{where}: {words}"):
        scenario_of(Path(where))


def test_a_directory_that_a_journal_is_in_is_no_journal_but_nearly(tmp_path: Path) -> None:
    (tmp_path / "mesh.journal").mkdir()
    with pytest.raises(Rejected, match=f"; do you mean {tmp_path / 'mesh.journal'}"):
        scenario_of(tmp_path)


# Journals that are directories.


@pytest.fixture
def segmented(recorded: tuple[Path, Emulation], tmp_path: Path) -> Path:
    """The same journal as three segments; the last one was cut short by a crash."""
    path, _ = recorded
    header, *entries = path.read_text("utf-8").splitlines(keepends=True)
    scenario = scenario_of(path)
    scheduler = build_scheduler(catalog_of(path, paper(), scenario), scenario)
    folder = tmp_path / "mesh.journal"
    folder.mkdir()
    for number in range(3):
        third = entries[number * len(entries) // 3 : (number + 1) * len(entries) // 3]
        snapshot = snapshot_line(to_text(scheduler.state), "{}", 0)
        text = "".join([header, f"{snapshot}\n", *third])
        (folder / f"{number:08}.journal").write_text(text, "utf-8")
        replay(scheduler, read_entries(third))
    with (folder / "00000002.journal").open("a", encoding="utf-8") as last:
        last.write('{"at":9')
    return folder


def test_segments_are_replayed_one_after_the_other(
    segmented: Path, recorded: tuple[Path, Emulation]
) -> None:
    _, emulation = recorded
    replayed = replay_strictly(segmented, paper())
    assert replayed.digest == emulation.digest
    assert replayed.report.summary()["requests"] == emulation.report.summary()["requests"]


def test_a_replay_leaves_out_what_a_controller_would_cut_off(segmented: Path) -> None:
    whole = replay_strictly(segmented, paper()).entries
    last = segmented / "00000002.journal"
    with last.open("ab") as file:
        file.write(b"\0\0\n\0")  # as a crash of the machine may leave it
    assert replay_strictly(segmented, paper()).entries == whole
    assert cut_torn_end(last) == len(b'{"at":9\0\0\n\0')
    assert replay_strictly(segmented, paper()).entries == whole


def test_a_replay_can_begin_with_any_segment(segmented: Path) -> None:
    whole = replay_strictly(segmented, paper()).entries
    first = segmented / "00000000.journal"
    missing = replay_strictly(first, paper()).entries
    first.unlink()
    assert replay_strictly(segmented, paper()).entries == whole - missing


def test_a_segment_that_is_missing_in_the_middle_is_found(segmented: Path) -> None:
    (segmented / "00000001.journal").unlink()
    with pytest.raises(Rejected, match="snapshot is not where the one before it ended"):
        replay_strictly(segmented, paper())


def test_segments_of_different_policies_are_replayed_one_at_a_time(segmented: Path) -> None:
    last = segmented / "00000002.journal"
    last.write_text(last.read_text("utf-8").replace('"policy":"esg"', '"policy":"infless"', 1))
    with pytest.raises(Rejected, match="under different conditions"):
        replay_strictly(segmented, paper())


def from_the_middle(path: Path, rest: Path, after: int) -> Path:
    """The journal without so many of its first entries: what was known by then is a snapshot."""
    header, *entries = path.read_text("utf-8").splitlines(keepends=True)
    conditions = scenario_of(path)
    scheduler = build_scheduler(catalog_of(path, paper(), conditions), conditions)
    replay(scheduler, read_entries(entries[:after]))
    snapshot = snapshot_line(to_text(scheduler.state), "{}", 0)
    rest.write_text("".join([header, f"{snapshot}\n", *entries[after:]]), "utf-8")
    return rest


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


# Journals that no emulator wrote: no word about nodes in the header, and a clock of their own.


@pytest.fixture
def live(recorded: tuple[Path, Emulation], tmp_path: Path) -> Path:
    """As a controller would have written it: on nodes that joined, long after time began."""
    header, *entries = map(json.loads, recorded[0].read_text("utf-8").splitlines())
    header["world"] = {}
    for entry in entries:
        entry["at"] += 10**15
    path = tmp_path / "live.journal"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *entries)), "utf-8")
    return path


def test_nodes_are_those_that_joined(live: Path) -> None:
    found = scenario_of(live)
    assert (found.nodes, found.vcpus, found.vgpus) == (3, 16, 7)
    assert found.warm_start


def test_a_mesh_that_was_cold_when_its_nodes_joined_is_cold_again(live: Path) -> None:
    header, *entries = map(json.loads, live.read_text("utf-8").splitlines())
    for entry in entries:
        if entry["event"] == "InvokerJoined":
            for part in entry["is"]["slices"]:
                part["resident"] = []
    live.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *entries)), "utf-8")
    assert not scenario_of(live).warm_start


@pytest.mark.parametrize("warm", [True, False])
def test_a_journal_that_begins_in_the_middle_is_as_warm_as_its_nodes_were(
    warm: bool, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.journal"
    record(whole, scenario(nodes=3, warm_start=warm, prewarm=False))
    path = from_the_middle(whole, tmp_path / "rest.journal", after=3)  # the nodes have joined
    header, *rest = path.read_text("utf-8").splitlines(keepends=True)
    told = json.loads(header)
    told["world"] = {}
    path.write_text("".join([f"{json.dumps(told)}\n", *rest]), "utf-8")
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


# What the world did of its own accord.


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


# Applications that came and went.

TWICE = (
    StageSpec(name="first", function="classification"),
    StageSpec(name="second", function="classification", after=("first",)),
)


def changing() -> list[tuple[int, Event]]:
    """A day on which one application comes, one changes and one goes, while requests come."""
    came: list[tuple[int, Event]] = list(FIFTY.arrivals(list(paper().applications), 0))
    new = [
        (at_us, RequestArrived(request=f"n{n}", application="twice"))
        for n, (at_us, _) in enumerate(came[10:20])
    ]
    changed = "image-classification"
    changes: list[tuple[int, Event]] = [
        (came[5][0], ApplicationRegistered(application="twice", stages=TWICE, slo_scale=2.0)),
        (came[25][0], ApplicationRegistered(application=changed, stages=TWICE, slo_us=10**6)),
        (came[30][0], ApplicationRetired(application="twice")),
        (came[30][0], RequestArrived(request="late", application="twice")),
    ]
    return sorted([*came, *new, *changes], key=lambda pair: pair[0])


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Emulation]:
    path = tmp_path_factory.mktemp("journals") / "changing.journal"
    with path.open("w", encoding="utf-8") as file:
        return path, emulate(paper(), scenario(nodes=3), changing(), journal=file)


def test_applications_that_come_and_go_are_kept(changed: tuple[Path, Emulation]) -> None:
    kept = [type(event) for _, event in exogenous(read_journal(changed[0]), keep_slos=True)]
    assert kept.count(ApplicationRegistered) == 2
    assert kept.count(ApplicationRetired) == 1


def test_a_day_on_which_applications_change_can_be_replayed(
    changed: tuple[Path, Emulation],
) -> None:
    path, emulation = changed
    assert emulation.report.served.invalid == 1
    assert emulation.report.applications["twice"].arrived == 11
    assert len(emulation.report.applications["twice"].latency_us) == 10
    assert all("@" not in name for name in emulation.report.applications)
    assert replay_strictly(path, paper()).digest == emulation.digest
    assert again(path).digest == emulation.digest


def test_under_other_conditions_the_same_applications_come_and_go(
    changed: tuple[Path, Emulation],
) -> None:
    for changes in ({"policy": "infless"}, {"policy": "orion"}, {"nodes": 5}, {"engine": "astar"}):
        other = again(changed[0], **changes)
        assert other.report.served.invalid == 1
        assert len(other.report.applications["twice"].latency_us) == 10


def after_the(kind: type[Event], path: Path) -> int:
    """How many entries there are up to the first of this kind."""
    kinds = [type(entry.event) for entry in read_journal(path)]
    return kinds.index(kind) + 1


@pytest.mark.parametrize("kind", [ApplicationRegistered, ApplicationRetired])
def test_applications_that_a_snapshot_knows_are_there_from_the_start(
    changed: tuple[Path, Emulation], tmp_path: Path, kind: type[Event]
) -> None:
    after = after_the(kind, changed[0])
    path = from_the_middle(changed[0], tmp_path / "rest.journal", after=after)
    judged, other = replay_strictly(path, paper()).report, again(path, nodes=5).report
    assert judged.arrived > 0
    assert (other.arrived, other.served.invalid) == (judged.arrived, judged.served.invalid)


def test_a_catalogs_application_that_was_retired_before_stays_so(tmp_path: Path) -> None:
    name = "image-classification"
    events: list[tuple[int, Event]] = [
        (0, ApplicationRetired(application=name)),
        (1, RequestArrived(request="r1", application=name)),
    ]
    whole = tmp_path / "whole.journal"
    with whole.open("w", encoding="utf-8") as file:
        emulate(paper(), scenario(nodes=3), events, journal=file)
    after = after_the(ApplicationRetired, whole)
    path = from_the_middle(whole, tmp_path / "rest.journal", after=after)
    assert again(path).report.served.invalid == 1


def test_corrections_in_a_journal_are_known_from_the_start(tmp_path: Path) -> None:
    slow = ProfilesCorrected(
        corrections=(Correction(function="classification", batch=1, pace_ppm=3_000_000),)
    )
    came = RequestArrived(request="r1", application="image-classification")
    whole = tmp_path / "whole.journal"
    with whole.open("w", encoding="utf-8") as file:
        emulation = emulate(paper(), scenario(nodes=3), [(0, slow), (1, came)], journal=file)
    after = after_the(ProfilesCorrected, whole)
    path = from_the_middle(whole, tmp_path / "rest.journal", after=after)
    assert again(path).report.summary()["latency_ms"] == emulation.summary()["latency_ms"]


def deadlines(conditions: Scenario, registered: ApplicationRegistered) -> list[int]:
    """What requests for an application that came are promised, or nothing if it was refused."""
    found: list[int] = []

    def observe(now_us: int, event: Event, commands: list[Command]) -> None:
        answers = (command for command in commands if isinstance(command, AnswerRequest))
        found.extend(answer.deadline_us - answer.arrived_us for answer in answers)

    request = RequestArrived(request="r1", application=registered.application)
    emulate(paper(), conditions, [(0, registered), (1, request)], observe=observe)
    return found


@pytest.mark.parametrize(
    ("conditions", "slo", "expected_us"),
    [
        ({}, {"slo_us": 600_000}, [600_000]),
        ({}, {"slo_scale": 2.0}, [588_000]),
        ({"slo_scale": 3.0}, {"slo_us": 600_000}, [882_000]),
        ({"slo_scale": 3.0}, {"slo_scale": 2.0}, [882_000]),
        ({"gpu_sharing": False}, {"slo_scale": 2.0}, [588_000]),
        ({"time_scale": 0.1}, {"slo_scale": 2.0}, [58_800]),
        ({"slo_scale": 0.001}, {"slo_scale": 2.0}, []),
    ],
    ids=str,
)
def test_applications_that_come_get_the_slos_of_the_scenario(
    conditions: dict[str, Any], slo: dict[str, Any], expected_us: list[int]
) -> None:
    """The time alone of two classifications in a row is 294 ms."""
    came = ApplicationRegistered(application="twice", stages=TWICE, **slo)
    assert deadlines(scenario(**{"slo_scale": None, **conditions}), came) == expected_us


def test_a_journal_of_a_mesh_with_a_time_scale_is_replayed_in_its_time(tmp_path: Path) -> None:
    path = tmp_path / "fast.journal"
    emulation = record(path, scenario(nodes=3, time_scale=0.1))
    assert scenario_of(path).time_scale == 0.1
    assert replay_strictly(path, paper()).digest == emulation.digest


def test_the_entries_are_read_as_they_are_needed(recorded: tuple[Path, Emulation]) -> None:
    assert isinstance(next(read_journal(recorded[0])), JournalEntry)
