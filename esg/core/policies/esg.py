"""ESG, the paper's policy: re-plan before every stage, never hold, locality first.

Queues are visited round-robin. A queue is planned for the time its oldest job has left; the k best
plans are offered in order of cost.

The paper does not say what becomes of jobs that can no longer make it. Giving them the fastest
config, as a search that is out of options suggests, lets the hopeless crowd out the others. So:

    - if even the fastest config of every stage would be late, the jobs that are lost go out
      together at the least cost, and those behind them are planned for by themselves;
    - if only the group's quota cannot be kept (`astar`), the fastest plan may still save the day.
"""

from collections.abc import Callable, Iterable, Mapping

from esg.core.catalog.model import Application, Catalog
from esg.core.policies.baselines import round_robin
from esg.core.policies.interface import Hold, Offer, Placement, QueueView
from esg.core.policies.placement import anywhere, locality_first
from esg.core.search import Engine, engine
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Queue
from esg.limits import LONGEST_US

NODES_PER_MS = {"astar": 300, "frontier": 10_000}
"""How many paths `astar` takes up, and how many configs `frontier` looks at, in a millisecond."""


class Best(Offer):
    """The best plan alone; the others are searched for if there is no room for it."""

    left_us: int = 0
    complete: bool = False


class EngineTable(dict[str, Engine]):
    """The search engines of a catalog's applications by name, each built when it is asked for:
    that takes milliseconds, and half a second for the largest application that is accepted."""

    def __init__(self, catalog: Catalog, build: Callable[[Application], Engine]) -> None:
        super().__init__()
        self.catalog = catalog
        self._build = build

    def __missing__(self, name: str) -> Engine:
        found = self[name] = self._build(self.catalog.applications[name])
        return found


class Engines:
    """Makes the engines of catalogs. When another catalog has some of the same applications, their
    engines are used again; what was needed so far for one that has changed is built at once, not
    when the next decision waits for it: whoever changes it may do that in a thread."""

    def __init__(self, name: str, *, group_size: int) -> None:
        self.name = name
        self._group_size = group_size
        self._latest: EngineTable | None = None

    def build(self, application: Application) -> Engine:
        return engine(self.name, application, group_size=self._group_size)

    def of(self, catalog: Catalog) -> EngineTable:
        before, table = self._latest, EngineTable(catalog, self.build)
        for name, application in catalog.applications.items():
            if before is not None and name in before:
                same = before.catalog.applications[name] is application
                table[name] = before[name] if same else self.build(application)
        self._latest = table
        return table


class Esg:
    """ESG with either search engine."""

    prewarm_all_stages = False

    def __init__(
        self, catalog: Catalog, engines: Engines, *, k: int, locality: bool = True
    ) -> None:
        self._k = k
        self._place = locality_first if locality else anywhere
        self._engines = engines.of(catalog)
        self.search_steps_per_ms = NODES_PER_MS[engines.name]

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        return round_robin(queues)

    def decide(self, view: QueueView) -> Offer | Hold:
        engine, stage = self._engines[view.application.name], view.stage.name
        queue, left_us = len(view.queue.jobs), view.left_us()
        best = engine.cheapest(stage, queue, left_us)
        if best is not None:
            return Best((best,), effort=1, left_us=left_us)
        search = engine.search
        answer = search(stage, queue=queue, left_us=left_us, k=self._k)
        effort = answer.effort
        if not answer.feasible:
            lost, count = self._front(view)
            left_us = LONGEST_US if lost else view.left_us(count)
            if lost or count < min(len(view.jobs), view.stage.function.profile.max_batch):
                answer = search(stage, queue=count, left_us=left_us, k=self._k)
                effort += answer.effort
        return Offer(answer.plans, effort)

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        placement = self._place(view, offer, nodes)
        if placement is None and isinstance(offer, Best) and not offer.complete:
            engine, queue = self._engines[view.application.name], len(view.jobs)
            answer = engine.search(view.stage.name, queue=queue, left_us=offer.left_us, k=self._k)
            offer.plans, offer.complete = answer.plans, True
            offer.effort += answer.effort
            placement = self._place(view, offer, nodes)
        return placement

    def _front(self, view: QueueView) -> tuple[bool, int]:
        """Whether the oldest job can no longer make its deadline, and how many jobs at the front
        of the queue, no more than one batch can take, are in the same case."""
        fastest_us = self._engines[view.application.name].fastest_us(view.stage.name)
        jobs = view.jobs[: view.stage.function.profile.max_batch]
        lost = [job.deadline_us - view.now_us < fastest_us for job in jobs]
        return lost[0], next((i for i, one in enumerate(lost) if one is not lost[0]), len(lost))
