"""The data of a node's tasks, and where each piece is: the choice by locality.

An output stays on the node that made it. A consumer on the same node reads the file; for one
elsewhere the output is copied to Redis first (`publish`). Payloads come from the gateway and
results go to it, through Redis or, what is large and waited for, through the directory that all
share on one machine (`mesh_store`); small payloads have come with the order. When Redis is away,
what stays on the node goes on, and what has to go elsewhere waits a while for it. A node that has
no room for an output keeps it in Redis, too.
"""

import logging

from esg.core.messages.task_order import InlinePayload, Input, Payload
from esg.errors import Fault
from esg.runtime.logs import about
from esg.storage.errors import Missing
from esg.storage.local_store import LocalStore
from esg.storage.redis_store import RedisStore
from esg.storage.retrying import RETRY_TIMEOUT_S, patiently

log = logging.getLogger(__name__)


class NodeStore:
    """What one invoker reads and writes."""

    def __init__(
        self,
        local: LocalStore,
        remote: RedisStore,
        invoker: str,
        *,
        patience_s: float = RETRY_TIMEOUT_S,
    ) -> None:
        self._patience_s = patience_s
        self.local = local
        self.remote = remote
        self.invoker = invoker
        self._written: dict[str, dict[str, bool]] = {}
        """Of every request that something is kept of, what is in the remote store from here, by
        stage; true if it is a result."""

    @property
    def kept(self) -> tuple[str, ...]:
        """The requests that something is kept of."""
        return tuple(self._written)

    async def keep(
        self, request: str, stage: str, content: bytes | memoryview, *, local: bool, publish: bool
    ) -> None:
        """Store what a task made: on this node (`local`) for later stages, and if it is a result
        (`publish`), for the gateway."""
        if not self.keep_here(request, stage, content, local=local, publish=publish):
            await self.send(request, stage, content)

    def keep_here(
        self,
        request: str,
        stage: str,
        content: bytes | memoryview,
        *,
        local: bool,
        publish: bool,
        waited_for: bool = False,
    ) -> bool:
        """The part of it that nobody has to wait for: whether that is all. If not, it is to be sent
        to Redis. A result that is `waited_for` may be where its gateway has it at once."""
        written = self._written.setdefault(request, {})
        shared = publish and waited_for and self.remote.share(request, stage, content)
        in_redis = publish and not shared
        if local:
            try:
                self.local.put(request, stage, content)
            except Fault as fault:
                in_redis = True
                log.warning(
                    "kept in Redis instead",
                    extra=about(request=request, stage=stage, reason=str(fault)),
                )
        if in_redis or shared:
            written[stage] = publish
        return not in_redis

    async def publish(self, request: str, stage: str) -> None:
        """Copy an output to Redis, because its consumer runs elsewhere."""
        try:
            content = self.local.get(request, stage)
        except Missing:
            if self._is_written(request, stage):
                return  # it was kept there from the first
            raise
        # Noted first: a discard that comes while the copy is under way is carried out after it
        self._written.setdefault(request, {}).setdefault(stage, False)  # it may be a result as well
        await self.send(request, stage, content)

    async def send(self, request: str, stage: str, content: bytes | memoryview) -> None:
        """Put something into Redis."""
        await patiently(lambda: self.remote.put(request, stage, content), self._patience_s)

    async def fetch(self, request: str, source: Input, timeout_s: float) -> bytes | memoryview:
        """Read an input of a request's job, waiting for it if it has to come from elsewhere."""
        found = self.here(request, source)
        if found is not None:
            return found
        stage = source.key if isinstance(source, Payload) else source.stage
        return await self.remote.wait(request, stage, timeout_s)

    def here(self, request: str, source: Input) -> bytes | memoryview | None:
        """An input that is on this machine, or came with the order; None if it has to come from
        elsewhere."""
        if isinstance(source, InlinePayload):
            return source.content
        if isinstance(source, Payload):
            return self.remote.here(request, source.key)
        if not source.is_local_to(self.invoker):
            return None
        try:
            return self.local.get(request, source.stage)
        except Missing:
            if not self._is_written(request, source.stage):
                raise
        return None

    def _is_written(self, request: str, stage: str) -> bool:
        """Whether an output is in the remote store from here."""
        return stage in self._written.get(request, {})

    async def discard(self, request: str, *, results: bool = False) -> None:
        """Delete what this node keeps of a request, and its copies in Redis.

        Results are the gateway's, which deletes them when it has delivered them; but those of a
        task that was stopped (`results`) nobody will ever ask for.
        """
        written = self._written.pop(request, {})
        self.local.discard(request)
        stages = [stage for stage, is_result in written.items() if results or not is_result]
        if stages:
            await patiently(lambda: self.remote.discard(request, stages), self._patience_s)

    async def withdraw(self, request: str, stage: str) -> None:
        """Delete one output, wherever it got to: its task failed after all."""
        written = self._written.get(request, {})
        written.pop(stage, None)
        self.local.remove(request, stage)
        if not written and not self.local.keeps(request):
            self._written.pop(request, None)
        await self.remote.discard(request, [stage])

    def clear(self) -> None:
        """Forget everything on this node; what it copied to Redis may still be of use there."""
        self.local.clear()
        self._written.clear()
