"""Small payloads: they go with their submissions, and to Redis only if the controller lost them.

A gateway keeps what went along until its request has ended. A controller that was started again has
the request in its journal but its payload nowhere, and says so when it is asked about the request
on the next link (`Accepted.store_payload`); from Redis a task gets it that waits for it already.
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

    def store(self, request: TrackedRequest) -> None:
        """Begin to store what went along with a request, if it did. Should that fail, those who
        miss it say so again."""
        payload = request.payload
        if payload is None or not payload.went_along or payload.on_its_way:
            return
        content, stage = payload.content, payload.stage

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
