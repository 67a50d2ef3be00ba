"""Bringing corrections of profiles into force without keeping anybody waiting.

Engines have to be built for them: tens of milliseconds, which a thread of its own takes while the
loop goes on. The scheduler then learns of the corrections by an event like any other, which the
journal has too.
"""

import asyncio
import logging

from esg.controller.driver import Driver
from esg.core.messages.events import Correction, ProfilesCorrected
from esg.runtime.logs import about

log = logging.getLogger(__name__)


class Corrector:
    """Prepares a driver's scheduler for corrections in a thread, and then tells it of them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
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
            await asyncio.to_thread(self._driver.scheduler.prepare, corrections)
        except Exception:  # what is wrong will be put aside, with its story
            log.exception("could not prepare for corrected profiles")
        for one in corrections:
            log.info(
                "profile corrected",
                extra=about(function=one.function, batch=one.batch, pace_ppm=one.pace_ppm),
            )
        self._driver.tell(ProfilesCorrected(corrections=corrections))
