"""Checksums of a journal's lines (CRC-32), each chained with the one before.

    {"journal":7,...,"after":"00000000","crc":"8d21c0de"}
    {"snapshot":{...},...,"crc":"1f0a77b3"}
    {"at":12000,...,"orders":"9c...","more":true,"crc":"77e01b2c"}
    {"at":12003,...,"orders":"","crc":"c4b1d0aa"}
    {"at":15870,...,"orders":"","synced":4711,"crc":"0c55e1f2"}

A line's checksum is that of all bytes before it, and goes on from the checksum of the line before:
a line that was changed, cut, doubled, removed or put elsewhere does not fit. `after` is what the
segment before this one ended with.

Lines that were written together are a group; all but its last one say that there is `more`. Where a
group begins after a sync, its first line says how many bytes of the file are on disk since then,
as `synced`. A crash of the machine can only tear what was not: nobody outside the mesh has heard
of it. So a torn end is what follows the last whole group, if that is the beginning of a line, or
has a hole, that is, bytes that never reached the disk and are zero, and if no later line says that
it had been on disk. Everything else that does not fit is damage, and never cut off: what was on
disk may have been promised to somebody.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple
from zlib import crc32

from esg.core.journal.format import FORMAT
from esg.errors import Rejected

_SEAL = b',"crc":"%08x"}\n'
_SEAL_BYTES = len(_SEAL % 0)
_SEAL_FORM = re.compile(rb',"crc":"([0-9a-f]{8})"}\n?')
_AFTER_BYTES = len(b',"after":"00000000"')
_MORE = b',"more":true'
_SYNCED = b',"synced":%d'
_SYNCED_FORM = re.compile(rb',"synced":(\d{1,18})\Z')
_HOLE = b"\0\0"
_SNAPSHOT_END = re.compile(rb'"wall_us":\d+,"crc":"[0-9a-f]{8}"}\n\Z')
_OPENING_LINES = 2
"""Header and snapshot are on disk before a segment has its name: no crash tears them."""


class Group(NamedTuple):
    """Lines that were written together, without their checksums: where they end in the file, and
    the last one's checksum."""

    lines: list[str]
    end: int
    check: int


class Damaged(Rejected):
    """A line that is not as it was written. All before `whole`, a place in the file, fits."""

    def __init__(self, problem: str, *, line: int, whole: int) -> None:
        super().__init__(problem)
        self.line = line
        self.whole = whole


def sealed_header(line: str, after: int = 0) -> tuple[bytes, int]:
    """A segment's first line with its checksum, and that checksum."""
    return _sealed(f'{line[:-1]},"after":"{after:08x}"'.encode(), 0)


def sealed_group(lines: Sequence[str], check: int, synced: int | None = None) -> tuple[bytes, int]:
    """Lines to be written together with their checksums, and the last one; `check` is that of the
    line before them. With `synced`, so many bytes of the file are known to be on disk."""
    mark = b"" if synced is None else _SYNCED % synced
    last = len(lines) - 1
    sealed = []
    for number, line in enumerate(lines):
        body = line[:-1].encode() + mark + (_MORE if number < last else b"")
        data, check = _sealed(body, check)
        sealed.append(data)
        mark = b""
    return b"".join(sealed), check


def _sealed(body: bytes, check: int) -> tuple[bytes, int]:
    check = crc32(body, check)
    return body + _SEAL % check, check


def read_groups(
    lines: Iterable[bytes], *, may_be_torn: bool = False, without_snapshot: bool = False
) -> Iterator[Group]:
    """The groups of a segment, the header and the snapshot being one each; raises `Damaged` at the
    first line that does not fit.

    With `without_snapshot` the second line is known to be damaged, and gives a group without lines.
    Lines of an older format, which had no checksums, are given as they are.
    """
    rest = iter(lines)
    first = next(rest, b"")
    if not _SEAL_FORM.search(first) and not first.startswith(b'{"journal":%d,' % FORMAT):
        yield from _as_they_are(chain([first] if first else [], rest))
        return
    check = whole = position = 0
    group: list[str] = []
    for number, line in enumerate(chain([first], rest), 1):
        if number == _OPENING_LINES and without_snapshot:
            position += len(line)
            whole, check = position, _stored_check(line)
            yield Group([], whole, check)
            continue
        body = line[:-_SEAL_BYTES]
        check = crc32(body, check)
        if line[-_SEAL_BYTES:] != _SEAL % check:
            if may_be_torn and number > _OPENING_LINES and _is_torn(line, rest, position):
                return
            raise Damaged(_problem(line, number, position), line=number, whole=whole)
        position += len(line)
        if body.endswith(_MORE):
            group.append(_text(_unmarked(body)))
            continue
        group.append(_text(body[:-_AFTER_BYTES] if number == 1 else _unmarked(body)))
        whole = position
        yield Group(group, whole, check)
        group = []
    if group and not may_be_torn:
        problem = f"line {number + 1} (byte {position}) is missing: the one before says so"
        raise Damaged(problem, line=number + 1, whole=whole)


def unsealed(line: bytes) -> str:
    """A line without its checksum, whether that fits or not, if it is text at all."""
    return _text(_unmarked(line[:-_SEAL_BYTES]))


def _unmarked(body: bytes) -> bytes:
    """A line without what only this module writes and reads."""
    return _SYNCED_FORM.sub(b"", body.removesuffix(_MORE))


def _stored_check(line: bytes) -> int:
    """The checksum that a line says it has."""
    found = _SEAL_FORM.fullmatch(line[-_SEAL_BYTES:])
    return int(found[1], 16) if found else 0


def said_after(header: bytes) -> int:
    """What the segment before ended with, as a header says that fits."""
    return int(header[-_SEAL_BYTES - 9 : -_SEAL_BYTES - 1], 16)


def ends_with_snapshot(data: bytes) -> bool:
    """Whether the last line of these is a snapshot, going by how it ends: an entry ends
    otherwise."""
    return _SNAPSHOT_END.search(data[-100:]) is not None


def _as_they_are(lines: Iterable[bytes]) -> Iterator[Group]:
    position = 0
    for line in lines:
        position += len(line)
        yield Group([_decoded(line)], position, 0)


def _text(body: bytes) -> str:
    return _decoded(body) + "}"


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Rejected("not a journal: it is not text") from None


def _is_torn(line: bytes, rest: Iterator[bytes], position: int) -> bool:
    """Whether a line that does not fit, and all after it, may never have been on disk."""
    if _HOLE in line:  # the disk need not write in order: later lines may be there
        return all(_synced_then(later) <= position for later in chain([line], rest))
    if line.endswith(b"\n"):
        return False
    ended = _SEAL_FORM.search(line)
    return ended is None or ended.end() == len(line)  # otherwise its line break was damaged


def _synced_then(line: bytes) -> int:
    """How many bytes were on disk when a line was written, as far as it says so."""
    found = _SYNCED_FORM.search(line[:-_SEAL_BYTES].removesuffix(_MORE))
    return int(found[1]) if found else 0


def _problem(line: bytes, number: int, position: int) -> str:
    where = f"line {number} (byte {position})"
    if not line.endswith(b"\n"):
        return f"{where} is torn: it has no end"
    if not _SEAL_FORM.fullmatch(line[-_SEAL_BYTES:]):
        return f"{where} is damaged: it does not end with a checksum"
    return f"{where} is damaged: its checksum does not fit; it, or what is before it, was changed"
