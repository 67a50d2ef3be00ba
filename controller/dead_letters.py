"""Dead letters: a dead-letter queue of events that the scheduler failed at.

    JOURNAL/dead-letters/ApplicationRegistered-3f2a90c41d77e0b8.json

The driver goes on without an event that makes the scheduler raise, from the journal, which does not
have it. It is kept here for a bug report, with its memo, its time and the traceback; the segment of
the journal that was being written then ends with the state that it found. Whoever told it hears an
error that names it. The same event again is refused without being handled, also by the next
process; one that starts after its file was deleted tries it again.

Some facts are told again and again because they are still true: the alarm, a node's inventory, a
node's end, that somebody waits for a request. Their content is not what was wrong, and no mesh goes
on without them. They are refused for a pause that grows with every failure, and then tried again.
"""

import json
import logging
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from esg.backoff import Backoff
from esg.core.journal.format import Memo
from esg.core.messages.codec import digest, to_text
from esg.core.messages.events import (
    Event,
    InvokerJoined,
    InvokerLost,
    InvokerReported,
    RequestWanted,
    Woke,
)
from esg.core.scheduler.scheduler import Scheduler
from esg.errors import Rejected
from esg.files import written
from esg.runtime.logs import about
from esg.runtime.rpc.status import ServerError
from esg.units import NEVER_US, ms, seconds
from esg.version import __version__

log = logging.getLogger(__name__)

FOLDER = "dead-letters"
MOST_FILES = 100
"""The oldest gives way to the next one."""
LONGEST_TEXT = 100_000
"""Of an event, and of a traceback, in a file."""
TOLD_AGAIN = (Woke, InvokerJoined, InvokerReported, InvokerLost, RequestWanted)
BACKOFF_US = Backoff(ms(200), seconds(10))


class PutAside(ServerError):
    """An event was not handled: the scheduler failed at it, now or, if it was told `again`, when it
    was told before."""

    def __init__(self, name: str, *, again: bool) -> None:
        what = "had failed at this before" if again else "failed at this"
        super().__init__(
            f"the controller {what}, which is a bug of ours; it has kept it as {name}, and refuses "
            "the same again"
        )
        self.again = again


@dataclass(slots=True)
class _Known:
    """How often the scheduler has failed at an event, and until when it is refused."""

    failures: int = 0
    until_us: int = 0


class DeadLetters:
    """What was put aside in a folder, by this process and those before it. `rebuild` gives back the
    scheduler that the journal comes to."""

    def __init__(self, folder: Path, rebuild: Callable[[], Scheduler]) -> None:
        self._folder = folder
        self.rebuild = rebuild
        self.failed = 0
        self.refused = 0
        """Events since the process began, for its metrics."""
        self._known: dict[str, _Known] = {}  # the oldest first
        for file in sorted(folder.glob("*-*.json"), key=lambda file: file.stat().st_mtime_ns):
            self._remember(file.stem, now_us=0)

    def refusal(self, now_us: int, event: Event) -> PutAside | None:
        """The error for an event that is not to be handled, because of what happened before."""
        if not self._known:
            return None  # as nearly always
        name = _name(event)
        known = self._known.get(name)
        if known is None or now_us >= known.until_us:
            return None
        self.refused += 1
        return PutAside(name, again=True)

    def until_us(self, event: Event) -> int:
        """The time until which an event is refused."""
        known = self._known.get(_name(event)) if self._known else None
        return 0 if known is None else known.until_us

    def put_aside(self, now_us: int, event: Event, memo: Memo | None, error: Exception) -> PutAside:
        """Keep an event that the scheduler failed at; returns what to tell who told it."""
        self.failed += 1
        name = _name(event)
        file = self._folder / f"{name}.json"
        log.error("event put aside", extra=about(file=str(file), error=repr(error)[:1000]))
        self._write(file, _story(now_us, event, memo, error))
        self._remember(name, now_us)
        return PutAside(name, again=False)

    def _remember(self, name: str, now_us: int) -> None:
        known = self._known.setdefault(name, _Known())
        told_again = any(name.startswith(f"{kind.__name__}-") for kind in TOLD_AGAIN)
        pause_us = BACKOFF_US.pause(known.failures)
        known.until_us = now_us + pause_us if told_again else NEVER_US
        known.failures += 1
        while len(self._known) > MOST_FILES:
            oldest = next(iter(self._known))
            del self._known[oldest]
            with suppress(OSError):
                (self._folder / f"{oldest}.json").unlink()

    def _write(self, file: Path, story: str) -> None:
        """On a disk that is full it is in the log alone, and refused as long as this process is
        there."""
        try:
            self._folder.mkdir(exist_ok=True)
            with written(file, private=True) as opened:
                opened.write(story)
        except (OSError, Rejected) as error:
            log.warning("event not kept", extra=about(file=str(file), reason=str(error)))


def _name(event: Event) -> str:
    return f"{type(event).__name__}-{digest(_text(event))}"


def _text(event: Event) -> str:
    """An event as the journal writes it; what cannot be written there is shown in another way."""
    try:
        return to_text(event)
    except (ValueError, OverflowError):
        return repr(event)


def _story(now_us: int, event: Event, memo: Memo | None, error: Exception) -> str:
    told = "".join(traceback.format_exception(error))
    return json.dumps(
        {
            "event": type(event).__name__,
            "is": _text(event)[:LONGEST_TEXT],
            "memo": memo,
            "at": now_us,
            "wall_us": time.time_ns() // 1000,
            "esg": __version__,
            "traceback": told[-LONGEST_TEXT:],
        },
        indent=2,
    )
