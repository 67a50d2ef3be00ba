"""What a controller goes on from: the latest segment of its journal, if that is whole.

A segment's snapshot is the state that the segment before it ended in. So where only the opening of
the latest one is damaged, nothing is lost: its entries are lived through from the end of the one
before, and if it has none, that end is all there is to know. Damage elsewhere is refused: what came
after it was promised to somebody (see `salvage`).
"""

import logging
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from esg.core.journal.checksums import Damaged, ends_with_snapshot, said_after
from esg.core.journal.format import Segment, read_segment
from esg.errors import Rejected
from esg.runtime.journal_files import cut_off, last_group, naming, read_lines
from esg.runtime.logs import about

log = logging.getLogger(__name__)

ADVICE = (
    "esg journal check says how much is whole. Go on without what came later "
    "(esg up --resume --salvage, or controller.journal_salvage, for one start), or name another "
    "directory (controller.journal)"
)


class Past(NamedTuple):
    """A segment to go on from, and the checksum of its last line."""

    segment: Segment
    check: int


def read_past(files: list[Path], *, latest: bool = True) -> Past:
    """The last of these segments. Only the latest of a journal may have a torn end, which is cut
    off; raises `Damaged` if it is not whole, and those before it cannot make up for it."""
    with naming(files[-1]):
        try:
            return _whole(files[-1], latest=latest)
        except Damaged as damage:
            past = _from_the_one_before(files, damage, latest=latest)
            if past is None:
                raise
            what = about(segment=str(files[-1]), damage=str(damage))
            log.warning("segment is damaged, nothing is lost", extra=what)
            return past


def _whole(file: Path, *, latest: bool, without_snapshot: bool = False) -> Past:
    last = last_group(file, may_be_torn=latest, without_snapshot=without_snapshot)
    cut = cut_off(file, last.end) if latest else 0
    if cut:
        log.warning("torn end cut off", extra=about(segment=str(file), bytes=cut))
    lines = read_lines(file, without_snapshot=without_snapshot)
    return Past(read_segment(lines, any_version=True), last.check)


def _from_the_one_before(files: list[Path], damage: Damaged, *, latest: bool) -> Past | None:
    """The same without what is damaged, if nothing is lost with it."""
    *older, file = files
    if not older or damage.line > 2 or int(older[-1].stem) + 1 != int(file.stem):
        return None
    try:
        before = read_past(older, latest=False)
    except Rejected:
        return None
    with file.open("rb") as opened:
        header, *lines = opened
    if damage.line == 2 and said_after(header) != before.check:
        return None  # its end is missing, or it is not the one that was there
    if ends_with_snapshot((lines or [header])[-1]):
        return before  # it has no entries
    if damage.line == 1 or not ends_with_snapshot(lines[0]):
        return None  # what an entry was about may be hidden in there
    past = _whole(file, latest=latest, without_snapshot=True)
    return Past(replace(past.segment, before=before.segment), past.check)
