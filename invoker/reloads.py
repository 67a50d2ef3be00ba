"""Reloading one function of a running node: its handler and its model, as they are on disk now.

    1. A new worker process reads the handler, and the model's config is looked at: what is no good
       is refused, and nothing has changed.
    2. The pool lets no task of the function begin, and says when none runs any more.
    3. Every slice that has the model loads it anew. Triton keeps the old one if that fails; if it
       fails everywhere, the old handler stays as well.
    4. The new worker takes the place of all others, and tasks of the function begin again.

Should the model load on some slices only, it is unloaded from the others: no task runs a new
handler with an old model.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from esg.core.messages.node import (
    FunctionReloaded,
    ModelUnloaded,
    PoolEvent,
    ReloadFunction,
    ReplaceModel,
)
from esg.errors import Fault
from esg.invoker.handlers.handler import CpuParts
from esg.invoker.slices.client import SliceClient
from esg.runtime.logs import about

log = logging.getLogger(__name__)


class FunctionReloads:
    """`tell` is the node's: what its pool hears. `refresh` is that of its `SliceSet`."""

    def __init__(
        self,
        slices: Sequence[SliceClient],
        cpu: CpuParts,
        handlers: Mapping[str, str],
        refresh: Callable[[str], str],
        load_timeout_s: float,
        tell: Callable[[PoolEvent], None],
    ) -> None:
        self._slices = slices
        self._cpu = cpu
        self._handlers = handlers
        self._refresh = refresh
        self._load_timeout_s = load_timeout_s
        self._tell = tell
        self._one_at_a_time = asyncio.Lock()
        self._free: asyncio.Future[tuple[int, ...]] | None = None

    async def reload(self, function: str) -> None:
        """Raises `Rejected` or a `Fault` if the old one goes on, or goes on in part."""
        async with self._one_at_a_time:
            if function in self._handlers:
                async with self._cpu.renewed(self._handlers[function]) as take_over:
                    await self._replace(function, take_over)
            else:
                await self._replace(function, lambda: None)
        log.info("function reloaded", extra=about(function=function))

    def free(self, order: ReplaceModel) -> None:
        """The pool says that no task of the function runs, and where its model is."""
        if self._free is not None and not self._free.done():
            self._free.set_result(order.slices)

    async def _replace(self, function: str, take_over: Callable[[], None]) -> None:
        if reason := self._refresh(function):
            raise Fault(reason)
        self._free = asyncio.get_running_loop().create_future()
        self._tell(ReloadFunction(function=function))
        try:
            faults = await self._load(function, await self._free, take_over)
        finally:
            self._tell(FunctionReloaded(function=function))
        if faults:
            raise faults[0]

    async def _load(
        self, function: str, slices: Sequence[int], take_over: Callable[[], None]
    ) -> list[Fault]:
        """Replace the model, and unless that fails everywhere, the handler; what went wrong."""
        tried = [self._slices[index].reload(function, self._load_timeout_s) for index in slices]
        outcomes = await asyncio.gather(*tried, return_exceptions=True)
        failed: dict[int, Fault] = {}
        for index, outcome in zip(slices, outcomes, strict=True):
            if isinstance(outcome, Fault):
                failed[index] = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
        if len(failed) < len(slices) or not slices:
            take_over()
            for index, fault in failed.items():
                await self._give_up(index, function, fault)
        return list(failed.values())

    async def _give_up(self, index: int, function: str, fault: Fault) -> None:
        """A slice where only the old model is: it does not go with the new handler."""
        try:
            await self._slices[index].unload(function)
        except Fault as error:
            log.warning(
                "unload failed", extra=about(slice=index, function=function, reason=str(error))
            )
        self._tell(ModelUnloaded(slice=index, function=function, failure=str(fault)))
