"""Watching over a node's slices: those whose server is gone are brought back.

A slice is lost when its process has ended, when it has not answered for too long, or when a call
found nobody there. A server of our own is then started again, unless it still answers; somebody
else's is waited for. Each attempt comes a little later than the one before it, until a server has
lived for a while. Whichever way it comes back, it says which models it has.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from esg.backoff import Backoff
from esg.errors import Fault
from esg.invoker.gathering import together
from esg.invoker.node import Node
from esg.invoker.slices.bringup import READY_LIMIT_S, SliceSet
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.processes import SliceProcess
from esg.runtime.logs import about

log = logging.getLogger(__name__)

BACKOFF_S = Backoff(0.2, 10.0)
LONG_LIFE_S = 60.0
CHECKS_PER_SILENCE = 4


async def watch(found: SliceSet, node: Node, silent_s: float) -> None:
    """For as long as the node lives."""
    if found.here:  # what could end them would end this process
        await asyncio.get_running_loop().create_future()
    others = dict(enumerate(found.slices))
    watches = []
    for process, indexes in found.processes.items():
        ours = {index: others.pop(index) for index in indexes}
        watches.append(_Watch(process, ours, node, silent_s))
    watches += [_Watch(None, {index: part}, node, silent_s) for index, part in others.items()]
    await together([watched.run() for watched in watches])


@dataclass(frozen=True, slots=True)
class _Watch:
    """The watch over the slices of one process, or over one slice of somebody else's."""

    process: SliceProcess | None
    slices: Mapping[int, SliceClient]
    node: Node
    silent_s: float

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        pauses_s = BACKOFF_S.pauses()
        while True:
            began = loop.time()
            reason = await self._trouble()
            for index in self.slices:
                self.node.slice_lost(index, reason)
            if loop.time() - began > LONG_LIFE_S:
                pauses_s = BACKOFF_S.pauses()
            while True:
                await asyncio.sleep(next(pauses_s))
                try:
                    await self._bring_back()
                    break
                except Fault as fault:
                    log.warning("slice is not back", extra=about(reason=str(fault)))

    async def _trouble(self) -> str:
        """Wait until something is wrong; returns what."""
        works: list[Coroutine[Any, Any, str]] = []
        if self.process is not None:
            works.append(_ended(self.process))
        for index, part in self.slices.items():
            works += (self._silence(part), _found_lost(self.node.lost[index]))
        waits = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return next(wait.result() for wait in waits if wait in done)
        finally:
            for wait in waits:
                wait.cancel()

    async def _silence(self, part: SliceClient) -> str:
        """Wait until a server is gone, or has not answered for too long."""
        while True:
            try:
                await part.check(self.silent_s)
            except Fault as fault:
                return str(fault)
            await part.give_back()
            await asyncio.sleep(self.silent_s / CHECKS_PER_SILENCE)

    async def _bring_back(self) -> None:
        """With what it has, or from its beginning; a fault says that it is still not there."""
        addresses = [part.address for part in self.slices.values()]
        if self.process is not None and not await self._answers(self.process):
            await self.process.kill()
            addresses = list(await self.process.start())
        for part, address in zip(self.slices.values(), addresses, strict=True):
            await part.connect_again(address)
            await part.check(self.silent_s)
        for index, part in self.slices.items():
            await part.ready(READY_LIMIT_S)
            self.node.slice_back(index, await part.resident())

    async def _answers(self, process: SliceProcess) -> bool:
        if process.has_ended:
            return False
        try:
            for part in self.slices.values():
                await part.connect_again(part.address)
                await part.check(self.silent_s)
        except Fault:
            return False
        return True


async def _ended(process: SliceProcess) -> str:
    return f"{process.what} ended with code {await process.ended()}"


async def _found_lost(lost: asyncio.Event) -> str:
    await lost.wait()
    return "a call found nobody there"
