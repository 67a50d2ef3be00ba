"""Journals on disk, for reading: a file, as an emulated run writes it, or a directory of segments,
as a controller does.

What a crash cut short at the end of a directory's last segment was never acted upon, and counts as
not written: a controller that starts again removes it, and others do not read it. Whatever else is
not as it was written is refused (`Damaged`), with its file, its line and its place.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from esg.core.journal.checksums import Group, read_groups
from esg.core.journal.format import Header, JournalEntry, Segment, read_segment
from esg.errors import Rejected

SEGMENTS = "[0-9]*.journal"


def segment_files(directory: Path) -> list[Path]:
    """The files of a journal that is a directory, in the order in which they were written."""
    return sorted(directory.glob(SEGMENTS))


def files_of(path: Path) -> list[Path]:
    """The files of a journal, of which there is at least one."""
    if not path.is_dir():
        return [path]
    files = segment_files(path)
    if not files:
        journals = sorted(path.glob("*.journal"))
        hint = f"; do you mean {journals[0]}?" if journals else ""
        raise Rejected(f"{path}: no segment of a journal is in this directory{hint}")
    return files


def read_segments(path: Path) -> Iterator[Segment]:
    """The segments of a journal, as they are needed; there is at least one."""
    files = files_of(path)
    for file in files:
        lines = read_lines(file, may_be_torn=path.is_dir() and file is files[-1])
        with naming(file):
            segment = read_segment(lines)
            yield replace(segment, entries=_named(file, segment.entries))


def read_header(path: Path) -> Header:
    """Who wrote a journal; of several segments, the first."""
    return next(read_segments(path)).header


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """The entries of a journal, as they are needed."""
    for segment in read_segments(path):
        yield from segment.entries


def _named(file: Path, entries: Iterator[JournalEntry]) -> Iterator[JournalEntry]:
    with naming(file):
        yield from entries


def read_lines(
    file: Path, *, may_be_torn: bool = False, without_snapshot: bool = False
) -> Iterator[str]:
    """The lines of a segment, of which there is at least one, without their checksums; raises
    `Damaged` where they do not fit."""
    groups = read_file(file, may_be_torn=may_be_torn, without_snapshot=without_snapshot)
    for group in groups:
        yield from group.lines


def last_group(file: Path, *, may_be_torn: bool = False, without_snapshot: bool = False) -> Group:
    """The group that a segment ends with; raises `Damaged` if anything before it is."""
    groups = read_file(file, may_be_torn=may_be_torn, without_snapshot=without_snapshot)
    for group in groups:  # noqa: B007
        pass
    return group


def read_file(
    file: Path, *, may_be_torn: bool = False, without_snapshot: bool = False
) -> Iterator[Group]:
    """The groups of a segment, of which there is at least one (see `read_groups`)."""
    none = True
    try:
        with file.open("rb") as lines:
            for group in read_groups(
                lines, may_be_torn=may_be_torn, without_snapshot=without_snapshot
            ):
                none = False
                yield group
    except OSError as error:
        raise Rejected(f"cannot be read: {error.strerror}") from None
    if none:
        raise Rejected("empty, so it is no journal")


def cut_off(file: Path, end: int) -> int:
    """Remove what is after this place in a segment: how many bytes that were."""
    with file.open("r+b") as opened:
        cut = opened.seek(0, os.SEEK_END) - end
        if cut:
            opened.truncate(end)
            os.fsync(opened.fileno())
    return cut


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say which file it is that was refused."""
    try:
        yield
    except Rejected as error:
        if not str(error).startswith(f"{path}: "):
            error.args = (f"{path}: {error}",)
        raise
