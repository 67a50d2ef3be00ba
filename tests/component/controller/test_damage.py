"""A damaged journal: every change is noticed, nothing that was promised is lost without a word."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from esg.errors import Rejected
from esg.runtime.journal_check import check_journal
from tests.support.sealed import plain, sealed
from tests.support.waiting import names
from tests.support.written_journal import Known, resumed, write_journal

FLIPS = 1000
SALVAGED_FLIPS = 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def known(folder: Path) -> list[Known]:
    return write_journal(folder)


@pytest.fixture
def first(folder: Path) -> Path:
    return folder / "00000001.journal"


@pytest.fixture
def last(folder: Path) -> Path:
    return folder / "00000002.journal"


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def flipped(files: dict[Path, bytes], chance: Random) -> str:
    """Write the files with one bit of one of them changed; returns where."""
    place = chance.randrange(sum(map(len, files.values())))
    where = ""
    for path, data in files.items():
        changed = bytearray(data)
        if 0 <= place < len(data):
            bit = chance.randrange(8)
            changed[place] ^= 1 << bit
            where = f"{path.name}: bit {bit} of byte {place}"
        path.write_bytes(changed)
        place -= len(data)
    return where


# attack: E1


def test_no_bit_flip_changes_what_is_known_or_is_a_traceback(
    folder: Path, first: Path, last: Path, known: list[Known]
) -> None:
    files = {first: first.read_bytes(), last: last.read_bytes()}
    chance, refused = Random(29), 0
    for _ in range(FLIPS):
        where = flipped(files, chance)
        assert any(segment.problem for segment in check_journal(folder)), where
        try:
            found = resumed(folder)
        except Rejected as error:
            refusal = str(error)
        else:
            assert found == known[-1], where
            continue
        assert re.search(r"0000000\d\.journal: line \d+ \(byte \d+\) is ", refusal), where
        refused += 1
    assert FLIPS // 10 < refused < FLIPS - FLIPS // 10


def test_a_salvaged_journal_is_as_it_was_after_some_group(
    folder: Path, first: Path, last: Path, known: list[Known]
) -> None:
    files = {first: first.read_bytes(), last: last.read_bytes()}
    chance, lost = Random(30), 0
    for _ in range(SALVAGED_FLIPS):
        where = flipped(files, chance)
        found = resumed(folder, journal_salvage=True)
        assert found in known, where
        assert found == resumed(folder), where  # it is whole now
        kept_aside = list(folder.glob("*.damaged*"))
        assert len(kept_aside) == (found != known[-1]), where
        lost += len(kept_aside)
        for path in kept_aside:
            path.unlink()
    assert lost > SALVAGED_FLIPS // 10


Change = Callable[[list[bytes]], list[bytes]]


def swap(old: bytes, new: bytes) -> Change:
    def change(lines: list[bytes]) -> list[bytes]:
        text = b"".join(lines)
        assert old in text
        return text.replace(old, new, 1).splitlines(keepends=True)

    return change


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], 5),
        (lambda lines: [*lines[:3], *lines[4:]], 4),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3),
        (swap(b'"request":"run4"', b'"request":"run9"'), 4),
        (swap(b'"slo_us":60000000', b'"slo_us":90000000'), 5),
        (swap(b'"fetched_later":"', b'"fetched_lator":"'), 5),
        (swap(b'"at":', b'"at":1'), 3),
        (swap(b',"more":true', b""), 3),
        (lambda lines: [*lines[:-1], lines[-1][:-1] + b"\x0b"], 9),
        (lambda lines: [*lines[:-1], lines[-1][:-1] + b"J"], 9),
        (lambda lines: [*lines[:-1], lines[-1].replace(b'"at"', b'"a\n"')], 9),
    ],
    ids=[
        "doubled",
        "removed",
        "swapped",
        "another request",
        "another SLO",
        "another memo",
        "another time",
        "a group that ends early",
        "another line break",
        "a letter for the last line break",
        "a line break in the last line",
    ],
)
def test_a_changed_line_is_refused_by_its_file_and_its_place(
    folder: Path, last: Path, known: list[Known], change: Change, line: int
) -> None:
    lines = lines_of(last)
    changed = change(lines)
    last.write_bytes(b"".join(changed))
    place = sum(map(len, changed[: line - 1]))
    with pytest.raises(Rejected, match=rf"{last}: line {line} \(byte {place}\) is .*--salvage"):
        resumed(folder)
    assert last.read_bytes() == b"".join(changed)  # nothing was cut off


@pytest.mark.parametrize(
    "change",
    [
        swap(b'"memo":{"content_hash":"', b'"memo":{"content_hash":"x'),
        swap(b'"request":"run4","application":"thumb"', b'"request":"run4","application":"no"'),
        swap(b'"task":"t2"', b'"task":"t9"'),
    ],
)
def test_what_cannot_be_lived_through_is_refused_though_its_checksums_fit(
    folder: Path, last: Path, known: list[Known], change: Change
) -> None:
    lines = [f"{line}\n".encode() for line in plain(last)]
    after = json.loads(lines_of(last)[0])["after"]
    last.write_bytes(sealed((line.decode() for line in change(lines)), after=int(after, 16)))
    with pytest.raises(
        Rejected, match=r"cannot be lived through again|does not lead where it says"
    ):
        resumed(folder)


# attack: E2


def test_whole_lines_that_are_damaged_at_the_end_are_no_torn_end(
    folder: Path, last: Path, known: list[Known]
) -> None:
    lines = lines_of(last)
    damaged = [*lines[:-2], *(b"x" * (len(line) - 1) + b"\n" for line in lines[-2:])]
    last.write_bytes(b"".join(damaged))
    with pytest.raises(Rejected, match=rf"{last}: line 8 .* is damaged: it does not end with a"):
        resumed(folder)
    assert last.read_bytes() == b"".join(damaged)


@pytest.mark.parametrize("whole", [0, 1, 2])
@pytest.mark.parametrize("rest", ["nothing", "half a line", "a line without its break", "a hole"])
def test_a_torn_end_is_what_follows_the_last_whole_group(
    folder: Path, last: Path, known: list[Known], whole: int, rest: str
) -> None:
    """The last group has three lines; what was written of it counts as not written."""
    lines = lines_of(last)
    torn = lines[-3 + whole]
    ends = {
        "nothing": b"",
        "half a line": torn[: len(torn) // 2],
        "a line without its break": torn[:-1],
        "a hole": b"\0" * (len(torn) // 2) + torn[len(torn) // 2 :],
    }
    last.write_bytes(b"".join(lines[: -3 + whole]) + ends[rest])
    assert resumed(folder) == known[-2]
    assert last.read_bytes() == b"".join(lines[:-3])


@pytest.mark.parametrize("line", [4, 5])
def test_a_hole_in_what_was_not_synced_is_a_torn_end_whatever_follows(
    folder: Path, last: Path, line: int
) -> None:
    """The kernel writes pages in any order: later groups may be on disk, and earlier ones not."""
    known = write_journal(folder, unsynced=3)
    lines = lines_of(last)
    whole = b"".join(lines[:line])
    lines[line] = b"\0" * (len(lines[line]) - 1) + b"\n"
    last.write_bytes(b"".join(lines))
    assert resumed(folder) == known[line - 8]
    assert last.read_bytes() == whole


def test_a_hole_that_other_groups_follow_is_damage(
    folder: Path, last: Path, known: list[Known]
) -> None:
    lines = lines_of(last)
    lines[3] = b"\0" * (len(lines[3]) - 1) + b"\n"
    last.write_bytes(b"".join(lines))
    with pytest.raises(Rejected, match=r"line 4 .* is damaged"):
        resumed(folder)


# attack: E3


def test_a_damaged_snapshot_is_made_up_for_by_the_segment_before(
    folder: Path, last: Path, known: list[Known], caplog: pytest.LogCaptureFixture
) -> None:
    last.write_bytes(last.read_bytes().replace(b'"registrations"', b'"registratiens"', 1))
    assert resumed(folder) == known[-1]
    assert "segment is damaged, nothing is lost" in caplog.messages


def test_a_torn_end_is_cut_off_behind_a_damaged_snapshot_and_nothing_else(
    folder: Path, last: Path
) -> None:
    known = write_journal(folder, entries_in_second=False)
    damaged = last.read_bytes().replace(b'"memory"', b'"MEMORY"', 1)
    last.write_bytes(damaged + b'{"at":9')
    assert resumed(folder) == known[-1]
    assert last.read_bytes() == damaged


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"catalog"', b'"CATALOG"'), (b'"memory"', b'"MEMORY"'), (b'\n{"snapshot"', b'*{"snapshot"')],
    ids=["header", "snapshot", "the line break between them"],
)
def test_a_damaged_good_end_is_made_up_for_by_the_segment_before(
    folder: Path, last: Path, old: bytes, new: bytes
) -> None:
    known = write_journal(folder, entries_in_second=False)
    last.write_bytes(last.read_bytes().replace(old, new, 1))
    assert resumed(folder) == known[-1]


def damage_snapshot(first: Path, last: Path) -> None:
    last.write_bytes(last.read_bytes().replace(b'"memory"', b'"MEMORY"', 1))


def damage_header(first: Path, last: Path) -> None:
    last.write_bytes(last.read_bytes().replace(b'"catalog"', b'"CATALOG"', 1))


def damage_both(first: Path, last: Path) -> None:
    damage_snapshot(first, last)
    first.write_bytes(first.read_bytes().replace(b'"run2"', b'"run9"', 1))


def lose_the_end_of_the_first(first: Path, last: Path) -> None:
    damage_snapshot(first, last)
    first.write_bytes(b"".join(lines_of(first)[:-1]))


def lose_the_first(first: Path, last: Path) -> None:
    damage_snapshot(first, last)
    first.unlink()


def hide_an_entry(first: Path, last: Path) -> None:
    """The snapshot's line break is damaged, so that an entry looks like a part of it."""
    lines = lines_of(last)
    last.write_bytes(b"".join([lines[0], lines[1][:-1] + b"\x0b", *lines[2:]]))


@pytest.mark.parametrize(
    ("damage", "line", "salvaged"),
    [
        (damage_header, 1, 3),
        (damage_both, 2, 1),
        (lose_the_end_of_the_first, 2, 2),
        (hide_an_entry, 2, 3),
        (lose_the_first, 2, None),
    ],
)
def test_what_the_segment_before_cannot_make_up_for_is_refused_or_salvaged(
    folder: Path,
    first: Path,
    last: Path,
    known: list[Known],
    damage: Callable[[Path, Path], None],
    line: int,
    salvaged: int | None,
) -> None:
    damage(first, last)
    with pytest.raises(Rejected, match=rf"{last}: line {line} .* is damaged"):
        resumed(folder)
    if salvaged is None:
        with pytest.raises(Rejected, match="there is nothing to go on from"):
            resumed(folder, journal_salvage=True)
        assert last.exists()
    else:
        assert resumed(folder, journal_salvage=True) == known[salvaged]
        assert resumed(folder) == known[salvaged]


def test_salvage_says_what_is_lost_and_keeps_it_aside(
    folder: Path, last: Path, known: list[Known], caplog: pytest.LogCaptureFixture
) -> None:
    lines = lines_of(last)
    damaged = last.read_bytes().replace(b'"request":"run5"', b'"request":"ru\n5"')
    last.write_bytes(damaged)
    assert resumed(folder, journal_salvage=True) == known[5]
    assert last.read_bytes() == b"".join(lines[:4])
    assert (folder / "00000002.damaged").read_bytes() == damaged
    (said,) = [record for record in caplog.records if record.message == "journal is salvaged"]
    told = said.__dict__["about"]
    assert (told["lost_lines"], told["lost_requests"]) == (6, ["run6", "run7"])
    assert told["kept_as"].endswith("00000002.damaged")


def test_a_journal_that_is_whole_is_not_salvaged(folder: Path, known: list[Known]) -> None:
    assert resumed(folder, journal_salvage=True) == known[-1]
    assert names(folder) - {"reserve"} == {"00000001.journal", "00000002.journal"}
