"""Journals on disk, for reading: a file, as an emulated run writes it, or a directory of segments,
as a controller does.

What a crash cut short at the end of a directory's last segment was never acted upon, and counts as
not written: a controller that starts again removes it, and others do not read it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from esg.core.journal.format import Header, JournalEntry, Segment, read_segment
from esg.errors import Rejected

SEGMENTS = "[0-9]*.journal"


def segment_files(directory: Path) -> list[Path]:
    """The files of a journal that is a directory, in the order in which they were written."""
    return sorted(directory.glob(SEGMENTS))


def read_segments(path: Path) -> Iterator[Segment]:
    """The segments of a journal, as they are needed; there is at least one."""
    files = segment_files(path) if path.is_dir() else [path]
    if not files:
        journals = sorted(path.glob("*.journal"))
        hint = f"; do you mean {journals[0]}?" if journals else ""
        raise Rejected(f"{path}: no segment of a journal is in this directory{hint}")
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


def read_lines(file: Path, *, may_be_torn: bool = False) -> Iterator[str]:
    """The lines of a segment, of which there is at least one."""
    number = position = 0
    try:
        end = _whole_bytes(file.read_bytes()) if may_be_torn else 0
        with file.open("rb") as opened:
            for number, line in enumerate(opened, 1):
                position += len(line)
                if 0 < end < position:
                    return
                if number > 1 and not line.endswith(b"\n"):
                    raise Rejected(f"line {number} is torn: it has no end; remove it, or end it")
                yield line.decode()
    except OSError as error:
        raise Rejected(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Rejected("not a journal: it is not text") from None
    if not number:
        raise Rejected("empty, so it is no journal")


def cut_torn_end(file: Path) -> int:
    """Remove what is not a whole line at the end of a segment: how many bytes that were."""
    data = file.read_bytes()
    end = _whole_bytes(data)
    if not 0 < end < len(data):
        return 0
    with file.open("r+b") as opened:
        opened.truncate(end)
        os.fsync(opened.fileno())
    return len(data) - end


def _whole_bytes(data: bytes) -> int:
    """Where the last whole line ends. A file without any is none of ours: then it is 0."""
    end = data.rfind(b"\n") + 1
    while end and not _is_json(line := data[data.rfind(b"\n", 0, end - 1) + 1 : end]):
        end -= len(line)
    return end


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say which file it is that was refused."""
    try:
        yield
    except Rejected as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise Rejected(f"{path}: {error}") from None
