"""Telling a story: promises are checked after every event, and at the end."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from esg.core.messages.commands import AnswerRequest, Command
from esg.core.messages.events import Event
from esg.core.messages.outcome import Outcome
from esg.core.pool.pool import Pool
from esg.core.scheduler.scheduler import Scheduler
from esg.units import to_ms
from tests.simulation.faults.mesh import SimulatedMesh
from tests.simulation.session_promises import SessionPromises
from tests.simulation.story import HEAL_US, Story, draw
from tests.support.checked_scheduler import as_text, inspect

LATEST_EVENTS = 12

ENOUGH_EVENTS = 20_000
"""A story that is this long has no end: something is tried for ever."""


class Broken(AssertionError):
    """A promise was not kept; says which, when, and how to see it again."""


@dataclass
class Told:
    """How a story went."""

    story: Story
    mesh: SimulatedMesh
    events: int


class Witness(SessionPromises):
    """Sees all of a story, and remembers the latest of it."""

    def __init__(self, say: Callable[[str], None] | None) -> None:
        super().__init__()
        self.events = 0
        self.pools: Mapping[str, Pool] = {}
        self.latest: deque[str] = deque(maxlen=LATEST_EVENTS)
        self._say = say

    def handled(self, scheduler: Scheduler, event: Event, commands: list[Command]) -> None:
        self.events += 1
        self.latest.append(f"{to_ms(scheduler.state.now_us):10.3f} ms  {event}")
        if self._say is not None:
            self._say(self.latest[-1])
            for order in commands:
                self._say(f"{'':15}-> {order}")
        inspect(scheduler, commands)
        for pool in self.pools.values():
            _check_kinds(pool)
        super().handled(scheduler, event, commands)
        assert self.events < ENOUGH_EVENTS, "it goes on for ever"


def tell(story: Story, say: Callable[[str], None] | None = None) -> Told:
    """From the beginning to the end, or until a promise is broken; `say` hears all of it."""
    witness = Witness(say)
    mesh = story.mesh(witness)
    witness.pools = mesh.world.pools
    try:
        mesh.run(story.faults, HEAL_US)
        witness.check_the_end()
        check_the_end(story, mesh)
    except Exception as error:
        raise Broken(_message(story, error, witness.latest)) from error
    return Told(story, mesh, witness.events)


def verdict(job: tuple[int, str | None]) -> tuple[int, int, str]:
    """Of a seed, under a policy if one is given: itself, its number of events, and what broke."""
    seed, policy = job
    try:
        return seed, tell(draw(seed, policy)).events, ""
    except Broken as error:
        return seed, 0, f"seed {seed}: {error}"


def command(story: Story) -> str:
    return f".venv/bin/python -m tests.simulation --seed {story.seed} --policy {story.policy}"


def _message(story: Story, error: Exception, latest: deque[str]) -> str:
    what = f"{type(error).__name__}: {error}"
    return "\n".join(
        [f"{what}", f"  seen again with: {command(story)}", "  the latest events:"]
        + [f"    {line}" for line in latest]
    )


def _check_kinds(pool: Pool) -> None:
    for name, task in pool.running.items():
        config = task.order.config
        here = [pool.slices[index].kind for index in task.slices]
        assert set(here) <= {config.kind}, f"{name} is planned for {config} and is on {here}"


def check_the_end(story: Story, mesh: SimulatedMesh) -> None:
    """Everyone got an answer in time, everything is free, and a replay tells the same story."""
    _check_answers(story, mesh)
    _check_nothing_is_held(story, mesh)
    _check_data(mesh)
    fresh = mesh.controller.relived(story.scheduler(None))
    assert as_text(fresh) == as_text(mesh.controller.running), "a replay ends up elsewhere"


def _check_answers(story: Story, mesh: SimulatedMesh) -> None:
    for gateway in mesh.clients.gateways.values():
        unanswered = sorted(story.requests(gateway.session) - gateway.answers.keys())
        assert not unanswered, f"never answered: {', '.join(unanswered)}"
        latest_us = HEAL_US + story.work_us + story.patience_us
        for name, at_us in gateway.answered_us.items():
            assert at_us <= latest_us, f"{name} waited until {to_ms(at_us):.0f} ms"
        for name, said in gateway.answers.items():
            if isinstance(said, AnswerRequest):
                assert mesh.controller.answers.get(name) == said, (
                    f"{name} was told what no journal has"
                )
            if isinstance(said, AnswerRequest) and said.outcome is Outcome.DONE:
                for stage in said.results:
                    assert (name, stage) in mesh.storage.published, (
                        f"{name} is done, and what {stage} made for it is nowhere"
                    )


def _check_nothing_is_held(story: Story, mesh: SimulatedMesh) -> None:
    state = mesh.controller.running.state
    assert not state.requests, f"still under way: {', '.join(state.requests)}"
    assert not state.tasks, f"still running: {', '.join(state.tasks)}"
    assert set(state.nodes) == set(story.nodes)
    for name, node in state.nodes.items():
        pool = mesh.world.pools[name]
        assert not pool.running, f"{name} runs {', '.join(pool.running)}"
        assert node.vcpus_free == pool.vcpus_free == story.vcpus
        assert node.vgpus_free == len(pool.slices)
        for part, its in zip(node.slices, pool.slices, strict=True):
            assert (part.holder, its.holder, its.wanted) == ("", "", [])
            # everything has been idle for longer than it is kept
            assert set(part.residents) == set(its.models) == set()


def _check_data(mesh: SimulatedMesh) -> None:
    for node, kept in mesh.storage.kept.items():
        assert not kept, f"{node} keeps {sorted(kept)}, which nobody needs"
