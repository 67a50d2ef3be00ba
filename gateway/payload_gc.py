"""Deleting what nobody needs any more, behind the backs of those who wait for answers; and seeing
that outputs which are fetched later stay for exactly as long as they can be.

What is ripe goes together, in one sweep now and then: a task and a round trip for every request
would cost as much as storing it did.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from esg.errors import Fault
from esg.names import is_payload
from esg.runtime.logs import about
from esg.storage.redis_store import RedisStore
from esg.storage.retrying import patiently

log = logging.getLogger(__name__)

LINGER_S = 2.0
"""Outputs that are on their way to a client stay for so long: should this process die before they
have left it, the client asks again, elsewhere."""
SWEEP_S = 0.1
MOST_AT_ONCE = 1000

Values = list[tuple[str, str]]
"""By request and stage."""


class PayloadCollector:
    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._finishing = asyncio.Event()
        self._due: deque[tuple[float, tuple[str, str]]] = deque()
        """Outputs, and when their time has come."""
        self._given: list[tuple[Values, Awaitable[None]]] = []
        """What Redis was told to delete, and its answer."""
        self._sweeper: asyncio.Task[None] | None = None
        self._keeping: set[asyncio.Task[None]] = set()

    def discard(self, request: str, stages: Sequence[str]) -> None:
        """Delete what is stored of a request under these names. A payload never waits for its turn:
        a request that is repeated soon stores its payload again, and that must stay. Only a store
        that is away is waited for, but less long than answers are remembered."""
        loop = asyncio.get_running_loop()
        payloads = [(request, stage) for stage in stages if is_payload(stage)]
        if payloads:
            self._given.append((payloads, self._store.discarding(payloads)))
        later_s = loop.time() + LINGER_S
        self._due.extend((later_s, (request, stage)) for stage in stages if not is_payload(stage))
        if self._sweeper is None:
            self._sweeper = loop.create_task(self._sweep())

    def keep(self, request: str, stages: Sequence[str], left_s: float) -> None:
        """Have the outputs of a request expire when its result is forgotten. They were written with
        an expiry before the request ended, and some of them long before."""
        keeping = asyncio.create_task(self._keep(request, stages, left_s))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)

    async def finish(self) -> None:
        """Until all is deleted: those who were served here have what they came for."""
        self._finishing.set()
        while self._sweeper is not None:
            await asyncio.wait({self._sweeper})
        if self._keeping:
            await asyncio.wait(self._keeping)

    async def _keep(self, request: str, stages: Sequence[str], left_s: float) -> None:
        try:
            await patiently(lambda: self._store.expire(request, stages, left_s))
        except Fault as fault:
            log.warning("may expire early", extra=about(request=request, reason=str(fault)))

    async def _sweep(self) -> None:
        try:
            while self._given or self._due:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._finishing.wait(), SWEEP_S)
                ripe = self._ripe()
                if ripe:
                    self._given.append((ripe, self._store.discarding(ripe)))
                given, self._given = self._given, []
                left = [value for values, done in given for value in await _kept(values, done)]
                if left:
                    await self._try_again(left)
        finally:
            self._sweeper = None

    def _ripe(self) -> Values:
        now_s = asyncio.get_running_loop().time()
        ripe: Values = []
        while self._due and len(ripe) < MOST_AT_ONCE:
            if self._due[0][0] > now_s and not self._finishing.is_set():
                break
            ripe.append(self._due.popleft()[1])
        return ripe

    async def _try_again(self, values: Values) -> None:
        try:
            await patiently(lambda: self._store.discarding(values))
        except Fault as fault:
            # Every key has an expiry: this is for room, not for rightness
            requests = sorted({request for request, _ in values})
            log.warning("not deleted", extra=about(requests=requests, reason=str(fault)))


async def _kept(values: Values, done: Awaitable[None]) -> Values:
    """What could not be deleted at once."""
    try:
        await done
    except Fault:
        return values
    return []
