"""Several times as much as a mesh can do: it says so, answers what it accepts, starves nobody."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from esg.client import Exhausted, Outcome, PipelineStage, Result
from esg.core.catalog.file import load_catalog
from esg.core.messages.commands import AnswerRequest, Command, RefuseRequest, StartTask
from esg.core.messages.events import Event, RequestArrived
from esg.emulator.history import replay_strictly
from esg.names import plain_name
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import made, nothing_is_left
from tests.support.waiting import until

ONE_SLOW_SLICE = {"nodes": 1, "vgpus": 1, "scale": 10}
"""It does five requests a second, or fifteen in batches: however slow the machine that runs the
test, what is asked here is several times as much."""
CLIENTS = 40
FLOOD, CALM = "flood", "calm"
CALM_REQUESTS = 5
QUANTUM_MS = 400
"""Two of its tasks, at 200 ms."""

Ask = Callable[[str, bytes], Awaitable[Result]]


@dataclass
class Seen:
    """What became of requests, as their clients saw it."""

    asked: int = 0
    ends: Counter[Outcome] = field(default_factory=Counter)
    retries_s: list[float | None] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    async def ask(self, ask: Ask, application: str) -> float:
        """One more request; if it is refused, when to come back."""
        self.asked += 1
        payload = f"{application} {self.asked}".encode()
        try:
            result = await ask(application, payload)
        except Exhausted as refusal:
            self.retries_s.append(refusal.retry_after_s)
            return refusal.retry_after_s or 0.0
        self.ends[result.outcome] += 1
        if result.outcome is Outcome.DONE and result.outputs != {"detect": made("detect", payload)}:
            self.wrong.append(result.request_id)
        return 0.0


@dataclass
class Told:
    """The same as the journal tells it, and whose turn it was."""

    arrived: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    passed_over: dict[str, int] = field(default_factory=dict)
    """How many tasks of the flood began while each calm request waited for its own."""
    _waiting: set[str] = field(default_factory=set)

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, RequestArrived):
            self.arrived[event.request] += 1
            if event.application == CALM:
                self.passed_over[event.request] = 0
                self._waiting.add(event.request)
        for command in commands:
            match command:
                case RefuseRequest():
                    self.refused[command.request] += 1
                case AnswerRequest():
                    self.answered[command.request] += 1
                case StartTask() if plain_name(command.decision.application) == CALM:
                    self._waiting -= {job.request for job in command.order.jobs}
                case StartTask():
                    for request in self._waiting:
                        self.passed_over[request] += 1
                case _:
                    pass


async def test_a_flood_is_refused_with_a_time_and_another_application_is_served(
    launch: Launch, catalog: Path
) -> None:
    flood, calm = Seen(), Seen()
    settings = {"controller": {"fair_quantum_ms": QUANTUM_MS}}
    async with launch(**ONE_SLOW_SLICE, more=settings) as (mesh, client):
        await client.register_application(
            FLOOD, [PipelineStage("detect")], slo_ms=2000, late_requests="drop"
        )
        await client.register_application(CALM, [PipelineStage("detect")], slo_ms=60_000)
        served = asyncio.Event()

        async def one_of_the_flood(ask: Ask) -> None:
            while not served.is_set():
                retry_s = await flood.ask(ask, FLOOD)
                await asyncio.sleep(retry_s)  # as it was told

        async def flooded() -> bool:
            return bool(flood.retries_s)

        async with client.stream() as stream:
            ways: tuple[Ask, Ask] = (stream.submit, client.submit)
            crowd = [asyncio.create_task(one_of_the_flood(ways[n % 2])) for n in range(CLIENTS)]
            await until(flooded)
            for _ in range(CALM_REQUESTS):
                await calm.ask(client.submit, CALM)
            served.set()
            await asyncio.gather(*crowd)
        await nothing_is_left(mesh, client)
        journal = mesh.journal
    assert (flood.wrong, calm.wrong) == ([], [])
    assert calm.ends == {Outcome.DONE: CALM_REQUESTS}
    assert flood.ends.keys() <= {Outcome.DONE, Outcome.DROPPED}
    assert flood.ends[Outcome.DONE] > 0
    assert all(flood.retries_s)
    assert flood.asked == flood.ends.total() + len(flood.retries_s)

    assert journal is not None
    told = Told()
    replay_strictly(journal, load_catalog(catalog), told.observe)
    assert set(told.arrived.values()) == set(told.answered.values()) == {1}
    assert told.arrived == told.refused + told.answered
    assert told.arrived.total() == flood.asked + calm.asked
    assert told.refused.total() == len(flood.retries_s)
    # The one that ran, those of a quantum, and the one that went beyond it
    assert max(told.passed_over.values()) <= 2 + QUANTUM_MS // 200


async def test_a_queue_is_as_long_as_it_may_be_and_the_rest_is_refused(launch: Launch) -> None:
    seen, longest = Seen(), 5
    settings = {"controller": {"max_waiting": longest}}
    async with launch(**ONE_SLOW_SLICE, warm_start=True, more=settings) as (mesh, client):
        await client.register_application(CALM, [PipelineStage("detect")], slo_ms=60_000)
        async with client.stream() as stream:
            await asyncio.gather(*(seen.ask(stream.submit, CALM) for _ in range(60)))
        await nothing_is_left(mesh, client)
    assert seen.wrong == []
    assert seen.ends.keys() == {Outcome.DONE}
    assert seen.ends[Outcome.DONE] >= 1 + longest  # one ran at once, and the others could wait
    assert seen.retries_s
    assert all(seen.retries_s)
    assert seen.asked == seen.ends.total() + len(seen.retries_s)
