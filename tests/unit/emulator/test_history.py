"""Journals of runs are replayed strictly, and emulated again under other conditions."""

import json
from pathlib import Path
from typing import Any

import pytest

from esg.core.catalog.config import Config
from esg.core.journal.format import JournalEntry, read_entries, snapshot_line
from esg.core.journal.replay import Diverged, replay
from esg.core.messages.codec import to_text
from esg.core.scheduler.scheduler import build_scheduler
from esg.emulator.history import catalog_of, replay_strictly, scenario_of
from esg.emulator.run import Emulation
from esg.errors import Rejected
from esg.runtime.journal_files import cut_off, last_group, read_journal, read_lines
from tests.support.emulated_runs import paper, scenario
from tests.support.journal_cases import again, record
from tests.support.journal_cases import recorded as recorded
from tests.support.sealed import plain, sealed
from tests.support.small_catalog import SMALL
from tests.unit.emulator.test_repeating import without_clock


def edited(path: Path, tmp_path: Path, number: int, **changes: Any) -> Path:
    """The journal with another line of this number."""
    lines = plain(path)
    lines[number] = json.dumps(json.loads(lines[number]) | changes)
    copy = tmp_path / "edited.journal"
    copy.write_bytes(sealed(lines))
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


def test_emulation_under_other_conditions_gets_the_same_requests(
    recorded: tuple[Path, Emulation],
) -> None:
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


def test_journal_of_another_catalog_is_refused(recorded: tuple[Path, Emulation]) -> None:
    with pytest.raises(Rejected, match="written with another catalog; name it with --catalog"):
        replay_strictly(recorded[0], SMALL)


def test_a_torn_journal_is_refused_by_its_line(
    recorded: tuple[Path, Emulation], tmp_path: Path
) -> None:
    text = recorded[0].read_text("utf-8")
    path = tmp_path / "torn.journal"
    path.write_text(text[:-10], "utf-8")
    with pytest.raises(
        Rejected, match=rf"torn.journal: line {text.count(chr(10))} \(byte \d+\) is torn"
    ):
        replay_strictly(path, paper())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty, so it is no journal"),
        (b"\xff\xfe\x00\n", "not a journal: it is not text"),
        (b"at_us,application\n5,photo\n", "this is no journal"),
        (b"{}\n", "this is no journal"),
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


@pytest.fixture
def segmented(recorded: tuple[Path, Emulation], tmp_path: Path) -> Path:
    """The same journal as three segments; the last one was cut short by a crash."""
    path, _ = recorded
    header, *entries = plain(path)
    scenario = scenario_of(path)
    scheduler = build_scheduler(catalog_of(path, paper(), scenario), scenario)
    folder = tmp_path / "mesh.journal"
    folder.mkdir()
    for number in range(3):
        third = entries[number * len(entries) // 3 : (number + 1) * len(entries) // 3]
        snapshot = snapshot_line(to_text(scheduler.state), "{}", 0)
        (folder / f"{number:08}.journal").write_bytes(sealed([header, snapshot, *third]))
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
    end = last_group(last, may_be_torn=True).end
    assert cut_off(last, end) == len(b'{"at":9\0\0\n\0')
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
    header, *lines = read_lines(last, may_be_torn=True)
    last.write_bytes(sealed([header.replace('"policy":"esg"', '"policy":"infless"'), *lines]))
    with pytest.raises(Rejected, match="under different conditions"):
        replay_strictly(segmented, paper())


def test_the_entries_are_read_as_they_are_needed(recorded: tuple[Path, Emulation]) -> None:
    assert isinstance(next(read_journal(recorded[0])), JournalEntry)
