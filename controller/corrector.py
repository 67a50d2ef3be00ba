"""Bringing corrections of profiles into force without keeping anybody waiting.

Engines have to be built for them: tens of milliseconds, which a thread of its own takes while the
loop goes on. The scheduler then learns of the corrections by an event like any other, which the
journal has too.
"""

import asyncio
import logging
from collections.abc import Callable

from esg.core.messages.events import Correction, Event, ProfilesCorrected
from esg.core.scheduler.scheduler import Scheduler
from esg.runtime.logs import about

log = logging.getLogger(__name__)


class Corrector:
    """Prepares a scheduler for corrections in a thread, and then tells it of them."""

    def __init__(self, scheduler: Scheduler, tell: Callable[[Event], None]) -> None:
        self._scheduler = scheduler
        self._tell = tell
        self._under_way: asyncio.Task[None] | None = None

    def correct(self, corrections: tuple[Correction, ...]) -> None:
        """Begin; orders come so seldom that an earlier one is long done, or not worth doing."""
        self.close()
        self._under_way = asyncio.get_running_loop().create_task(self._correct(corrections))

    def close(self) -> None:
        if self._under_way is not None:
            self._under_way.cancel()

    async def _correct(self, corrections: tuple[Correction, ...]) -> None:
        try:
            await asyncio.to_thread(self._scheduler.prepare, corrections)
        except Exception:  # what is wrong will stop the driver, with a journal that has the story
            log.exception("could not prepare for corrected profiles")
        for one in corrections:
            log.info(
                "profile corrected",
                extra=about(function=one.function, batch=one.batch, pace_ppm=one.pace_ppm),
            )
        self._tell(ProfilesCorrected(corrections=corrections))
