"""Small payloads: they go with their submissions, and to Redis only if the controller lost them.

A gateway keeps what went along until its request has ended. A controller that was started again has
the request in its journal but its payload nowhere, and says so when it is asked about the request
on the next link (`Accepted.store_payload`); from Redis a task gets it that waits for it already.

Large ones that were put where a node on this machine has them at once are stored, too, if the node
does not: then it is on another machine, or sees another directory.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from esg.gateway.request import TrackedRequest
from esg.runtime.logs import about
from esg.storage.redis_store import RedisStore
from esg.storage.retrying import patiently

log = logging.getLogger(__name__)


class SmallPayloads:
    def __init__(self, store: RedisStore, discard: Callable[[str, Sequence[str]], None]) -> None:
        self._store = store
        self._discard = discard

    def store(self, request: TrackedRequest) -> bool:
        """Begin to store a payload that is held here; whether it is. Should that fail, those who
        miss it say so again."""
        payload = request.payload
        if payload is None:
            return False
        if payload.on_its_way:
            return True
        stage = payload.stage
        content = payload.content if payload.went_along else self._store.here(request.id, stage)
        if content is None:
            return False

        def stored(storing: asyncio.Task[None]) -> None:
            error = None if storing.cancelled() else storing.exception()
            if error is not None:
                log.warning(
                    "payload not stored", extra=about(request=request.id, reason=str(error))
                )
            elif request.history.result is not None:
                self._discard(request.id, [stage])  # it ended meanwhile

        log.info("payload stored after all", extra=about(request=request.id))
        put = patiently(lambda: self._store.put(request.id, stage, content))
        payload.store(put, durably=False).add_done_callback(stored)
        return True
