"""Salvage of a damaged journal: its whole beginning is kept, and what is lost is said.

Only on demand (`controller.journal_salvage`): what is lost had been promised to somebody. Requests
that came after the damage are forgotten, and what happened to older ones since then happens again.
Every step leaves a journal that the next start can go on from, or salvage.
"""

import logging
import os
from collections.abc import Iterator
from io import BytesIO
from itertools import count
from pathlib import Path

from esg.controller.durability.past import read_past
from esg.core.journal.checksums import Damaged, unsealed
from esg.core.journal.format import read_entries
from esg.core.messages.events import RequestArrived
from esg.errors import Rejected
from esg.runtime.journal_files import segment_files
from esg.runtime.logs import about

log = logging.getLogger(__name__)


def salvage(directory: Path) -> None:
    """Make a journal whole again, if it is damaged, by leaving out what follows the damage."""
    while files := segment_files(directory):
        try:
            read_past(files)
        except Damaged as damage:
            _leave_out(files, damage)
        else:
            return


def _leave_out(files: list[Path], damage: Damaged) -> None:
    *older, file = files
    opening_is_whole = damage.line > 2
    if not opening_is_whole and not older:
        raise Rejected(
            f"{damage}; no segment before it is there, so there is nothing to go on from; name "
            "another directory (controller.journal)"
        )
    data = file.read_bytes()
    whole = damage.whole if opening_is_whole else 0
    lost = list(BytesIO(data[whole:]))
    aside = _free_name(file)
    log.warning(
        "journal is salvaged",
        extra=about(
            damage=str(damage),
            kept_as=str(aside),
            lost_lines=len(lost),
            lost_requests=list(_requests(lost)),
        ),
    )
    if opening_is_whole:
        _write(aside, data)
        _write(file, data[:whole])
    else:
        file.rename(aside)
    _sync(file.parent)


def _write(file: Path, data: bytes) -> None:
    """All of it, or what was there before."""
    unfinished = file.parent / f"{file.name}.unfinished"
    with unfinished.open("wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    unfinished.rename(file)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free_name(file: Path) -> Path:
    """A name beside a segment that nothing has: it may have been damaged before."""
    names = (file.with_suffix(f".damaged{number or ''}") for number in count())
    return next(name for name in names if not name.exists())


def _requests(lines: list[bytes]) -> Iterator[str]:
    """The requests that came, as far as that can still be read."""
    for line in lines:
        try:
            (entry,) = read_entries([unsealed(line)])
        except Rejected:
            continue  # damaged, or a snapshot
        if isinstance(entry.event, RequestArrived):
            yield entry.event.request
