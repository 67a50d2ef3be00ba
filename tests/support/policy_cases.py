"""What the tests of the rival policies share: tiny applications, single cases, and a heavy run."""

from collections.abc import Iterable, Mapping
from itertools import islice

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog, Function, Stage
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import all_alike
from esg.core.durations import Durations
from esg.core.messages.commands import AnswerRequest, Command
from esg.core.messages.events import Event
from esg.core.messages.outcome import Outcome
from esg.core.policies.interface import Offer, Policy, QueueView
from esg.core.policies.table import policy
from esg.core.scheduler.invariants import AnswerBook, check
from esg.core.scheduler.scheduler import Scheduler
from esg.core.search.plan import Plan, Step
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import IntervalEstimate, Job, Queue, Request, StageRun, State
from esg.emulator.run import build_pools, requests
from esg.emulator.scenario import Scenario
from esg.emulator.world import World
from esg.units import ms
from esg.workload.mix import Mix
from esg.workload.rates import steady

PRICES = Prices(vcpu_usd_per_hour=0.0036, vgpu_usd_per_hour=0.036)
"""A vCPU costs one picodollar per microsecond and a vGPU ten."""

Cell = tuple[int, int, int]
Table = Mapping[Cell, float]
"""Milliseconds by (batch, vCPUs, vGPUs)."""


def function(name: str, table: Table, spread: float = 0.0) -> Function:
    times_us = {Config(*cell): ms(time_ms) for cell, time_ms in table.items()}
    profile = Profile.of(name, times_us, PRICES, relative_std=spread)
    return Function(name=name, profile=profile, cold_start_us=0, input_bytes=0, memory_mb=400)


def catalog(*applications: Application) -> Catalog:
    stages = [stage for app in applications for stage in app.stages.values()]
    return Catalog(
        functions={stage.function.name: stage.function for stage in stages},
        applications={app.name: app for app in applications},
        cluster=Cluster.alike(nodes=2, vcpus=4, vgpus=2),
        kinds=all_alike(1000),
        prices=PRICES,
    )


def chain(*tables: Table, slo_ms: float = 1000, spread: float = 0.0) -> Catalog:
    """One application "app" with the stages "a", "b", ... in a row."""
    names = "abcdef"[: len(tables)]
    stages = [
        Stage(name, function(name, table, spread), tuple(names[:place][-1:]))
        for place, (name, table) in enumerate(zip(names, tables, strict=True))
    ]
    return catalog(Application.of("app", stages, slo_us=ms(slo_ms)))


def queue_view(
    catalog: Catalog,
    *,
    stage: str = "a",
    waiting: int = 1,
    slo_ms: float = 1000,
    interval_ms: float = 0,
    now_ms: float = 0,
    planned: tuple[Step, ...] = (),
) -> QueueView:
    """Jobs that came just now, of requests that all came at 0; the next one is expected after the
    interval."""
    app = catalog.applications["app"]
    slo_us = ms(slo_ms)
    names = [f"r{number}" for number in range(1, waiting + 1)]
    found = {
        name: Request(name, "app", number, 0, slo_us, {s: StageRun() for s in app.stages})
        for number, name in enumerate(names, 1)
    }
    jobs = [Job(name, found[name].number, ms(now_ms), slo_us, planned) for name in names]
    arrivals = IntervalEstimate(latest_us=ms(now_ms), average_us=ms(interval_ms))
    queue = Queue(f"app/{stage}", "app", stage, jobs=jobs, arrivals=arrivals)
    queues = {f"app/{name}": Queue(f"app/{name}", "app", name) for name in app.stages}
    state = State(requests=found, queues=queues | {queue.name: queue})
    return QueueView(ms(now_ms), app, app.stages[stage], queue, state)


def make_node(
    name: str, *, vcpus: int = 4, vgpus: int = 2, free: tuple[int, int] | None = None
) -> NodeBooks:
    """A node; `free` says how many vCPUs and vGPUs are left, if a task holds the others."""
    node = NodeBooks.of(name, vcpus, [1000] * vgpus)
    if free is not None:
        held = Config(1, vcpus - free[0], vgpus - free[1])
        node.take("t0", "other", 100, held, 0)
    return node


def crowded(node: NodeBooks) -> NodeBooks:
    """The same node, with other models on their way to all of its memory: none fits any more."""
    for index, part in enumerate(node.slices):
        node.load(index, "another", part.memory_free_mb, 0)
    return node


def by_name(*nodes: NodeBooks) -> dict[str, NodeBooks]:
    return {node.invoker: node for node in nodes}


def configs(plans: Iterable[Plan]) -> list[Config]:
    return [plan.config for plan in plans]


def place(chosen: Policy, one: QueueView, *nodes: NodeBooks) -> tuple[Config, str] | None:
    """The config that is chosen for a case and the node it goes to."""
    offer = chosen.decide(one)
    assert isinstance(offer, Offer)
    one.state.nodes = by_name(*nodes)
    placement = chosen.place(one, offer, one.state.nodes)
    return None if placement is None else (placement.plan.config, placement.node.invoker)


def run_two_hundred_heavy_requests(name: str) -> list[AnswerRequest]:
    """The paper's cluster and applications, all warm; the books are checked after every event."""
    shipped = on_its_cluster(load_catalog())
    scheduler = Scheduler(shipped, policy(name, shipped))
    pools = build_pools(shipped, Scenario(policy=name, nodes=16, vcpus=16, vgpus=7))
    book = AnswerBook()

    def watch(_now_us: int, _event: Event, commands: list[Command]) -> None:
        check(scheduler)
        book.note(commands)

    world = World(scheduler, pools, Durations(shipped, seed=1), observe=watch)
    for pool in pools.values():
        world.tell(0, pool.joined())
    mix = Mix.uniform(list(shipped.applications))
    world.run(requests(islice(steady("heavy", mix, seed=1), 200)))
    assert sorted(book.answers) == sorted(f"r{number}" for number in range(1, 201))
    answers = [answer for answer in book.answers.values() if isinstance(answer, AnswerRequest)]
    assert [answer.outcome for answer in answers] == [Outcome.DONE] * 200
    assert not scheduler.state.requests
    assert not scheduler.state.tasks
    return answers
