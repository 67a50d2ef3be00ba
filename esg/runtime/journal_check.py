"""A check of a journal, segment by segment: checksums, groups, contents, and whether each segment
follows the one before."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from esg.core.journal.checksums import Group, said_after
from esg.core.journal.format import read_segment
from esg.core.messages.codec import decode
from esg.core.state.state import State
from esg.errors import Rejected
from esg.runtime.journal_files import files_of, read_file


@dataclass(slots=True, kw_only=True)
class SegmentCheck:
    """What is whole of a segment, up to the first problem if it has one. `torn_bytes` at the end of
    a journal were never acted upon: they are no problem."""

    file: Path
    entries: int = 0
    groups: int = 0
    from_us: int | None = None
    to_us: int | None = None
    torn_bytes: int = 0
    problem: str = ""


def check_journal(path: Path) -> list[SegmentCheck]:
    """All segments of a journal, in order."""
    if not path.exists():
        raise Rejected(f"{path}: there is no such file or directory")
    files = files_of(path)
    found: list[SegmentCheck] = []
    before: Group | None = None  # what the segment before ended with, if that is whole
    for file in files:
        segment = SegmentCheck(file=file)
        found.append(segment)
        try:
            may_be_torn = path.is_dir() and file is files[-1]
            last = _check(segment, may_be_torn=may_be_torn)
            _check_order(file, before)
            before = last
        except Rejected as error:
            segment.problem = str(error)
            before = None
    return found


def _check(segment: SegmentCheck, *, may_be_torn: bool) -> Group:
    """Fill in what is found; returns the last group."""
    groups: list[Group] = []
    opening = 2  # header and snapshot are groups of their own

    def lines() -> Iterator[str]:
        for group in read_file(segment.file, may_be_torn=may_be_torn):
            groups.append(group)
            yield from group.lines

    try:
        read = read_segment(lines())
        if read.snapshot is None:
            opening = 1
        else:
            decode(State, read.snapshot.state)
        for entry in read.entries:
            segment.entries += 1
            segment.from_us = entry.now_us if segment.from_us is None else segment.from_us
            segment.to_us = entry.now_us
    finally:
        segment.groups = max(0, len(groups) - opening)
    segment.torn_bytes = segment.file.stat().st_size - groups[-1].end
    return groups[-1]


def _check_order(file: Path, before: Group | None) -> None:
    with file.open("rb") as lines:
        after = said_after(next(lines))
    if before is not None and after != before.check:
        raise Rejected(
            "it does not go on where the segment before it ends: a segment, or the end of one, is "
            "missing"
        )
