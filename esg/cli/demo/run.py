"""The demonstration itself: what is done with the mesh, and what comes of it.

The picture that is sent, demo.png beside this file, was drawn for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from esg.cli.demo.expected_outputs import reckoned_outputs
from esg.client import AsyncClient, MeshStatus, Result
from esg.core.catalog.file import DEFAULT
from esg.errors import Fault
from esg.loadgen.outcome import LoadOutcome
from esg.loadgen.send import LoadSpec, SentRequest, send
from esg.local.supervisor import Mesh, MeshOptions

if TYPE_CHECKING:
    from esg.cli.demo.view import DemoView
    from esg.core.catalog.model import Catalog
    from esg.workload.arrivals import Arrival
    from esg.workload.rates import Rate

T = TypeVar("T")

PICTURE = Path(__file__).with_name("demo.png")
VCPUS, VGPUS = 16, 7
PAYLOAD_SCALE = 0.02
"""Emulated outputs are so much smaller than real ones, so that two cores can move them all."""


@dataclass(slots=True)
class DemoLoad:
    """What came of the load, with the transfers between stages, by application."""

    outcome: LoadOutcome = field(default_factory=LoadOutcome)
    verified: int = 0
    local: Counter[str] = field(default_factory=Counter)
    remote: Counter[str] = field(default_factory=Counter)
    cold_starts: int = 0


@dataclass(slots=True)
class DemoFindings:
    """Everything that there is to tell."""

    processes: list[str] = field(default_factory=list)
    up_s: float = 0.0
    pictures: list[tuple[Result, bool]] = field(default_factory=list)
    """Each with whether it is right."""
    served: DemoLoad = field(default_factory=DemoLoad)
    whole_s: float = 0.0

    @property
    def all_right(self) -> bool:
        pictures_right = all(right for _, right in self.pictures)
        return pictures_right and self.served.verified == self.served.outcome.total.requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What is to be shown: the catalog's applications on so many nodes, under this load."""

    catalog: Catalog
    nodes: int
    rate: Rate
    seconds: float
    arrivals: Sequence[Arrival]

    async def run(self, view: DemoView) -> DemoFindings:
        """From nothing to nothing. Whatever ends it takes the mesh down."""
        found = DemoFindings()
        began = perf_counter()
        view.begin(self)
        mesh = Mesh(
            MeshOptions(
                nodes=self.nodes,
                vcpus=VCPUS,
                vgpus=VGPUS,
                scale=1.0,
                catalog=DEFAULT,
                warm_start=True,
                payload_scale=PAYLOAD_SCALE,
            )
        )
        with view.waiting("starting the mesh"):
            await mesh.start()
        try:
            found.up_s = perf_counter() - began
            found.processes = list(mesh.processes)
            view.up(self, found)
            await while_up(mesh, self._work(mesh, found, view))
        finally:
            with view.waiting("taking everything down"):
                await mesh.stop()
        found.whole_s = perf_counter() - began
        view.end(self, found)
        return found

    async def _work(self, mesh: Mesh, found: DemoFindings, view: DemoView) -> None:
        picture = PICTURE.read_bytes()
        right = {
            name: reckoned_outputs(application, picture, PAYLOAD_SCALE)
            for name, application in self.catalog.applications.items()
        }
        async with AsyncClient(mesh.gateway) as client:
            for name in self.catalog.applications:
                with view.waiting(name):
                    result = await client.submit(name, picture)
                found.pictures.append((result, result.outputs == right[name]))
            view.pictures(found, len(picture))
            before = await _status(client)
            with view.load(self) as advance:

                def observe(answered: SentRequest) -> None:
                    self._count(answered, right, found.served)
                    advance(found.served)

                async with client.stream() as stream:
                    await send(stream, self.arrivals, LoadSpec(payload=lambda _: picture), observe)
            found.served.cold_starts = (await _status(client)).cold_starts - before.cold_starts
            view.served(found.served)

    def _count(
        self, answered: SentRequest, right: dict[str, dict[str, bytes]], served: DemoLoad
    ) -> None:
        served.outcome.add(answered)
        result = answered.result
        if result is None:
            return
        name = answered.arrival.application
        served.verified += result.outputs == right[name]
        node = {stage.stage: stage.node for stage in result.stages}
        for stage in self.catalog.applications[name].stages.values():
            for before in stage.after:
                if stage.name in node and before in node:
                    there = served.local if node[before] == node[stage.name] else served.remote
                    there[name] += 1


async def _status(client: AsyncClient) -> MeshStatus:
    return await anext(client.watch_mesh(0))


async def while_up(mesh: Mesh, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, unless the mesh breaks down."""
    doing = asyncio.create_task(work)
    failing = asyncio.create_task(mesh.failed())
    try:
        await asyncio.wait([doing, failing], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        process = failing.result()
        raise Fault(f"{process.name} {process.end_text()}; the end of its log:\n{process.tail()}")
    finally:
        doing.cancel()
        failing.cancel()
        await asyncio.gather(doing, failing, return_exceptions=True)
