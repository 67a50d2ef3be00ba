"""The mesh in numbers, for Prometheus: those that `esg top` shows."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from esg.controller.counters import ApplicationCounters, Counters
from esg.controller.durability.dead_letters import DeadLetters
from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import counts
from esg.core.catalog.unplanned import real_name
from esg.core.estimation.drift import Drift, drifts
from esg.core.messages.outcome import Outcome
from esg.core.metrics import slice_counts
from esg.core.scheduler.scheduler import Scheduler
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import State
from esg.units import PPM, to_usd


class MeshMetrics(Collector):
    """Counters begin with the process; gauges are as of now. While the scheduler is being built
    again (None), there are no numbers of its state."""

    def __init__(
        self,
        scheduler: Callable[[], Scheduler | None],
        tally: Counters,
        dead_letters: DeadLetters | None = None,
        refusing: Callable[[], str] = lambda: "",
        syncs: Callable[[], int] = lambda: 0,
    ) -> None:
        self._scheduler = scheduler
        self._tally = tally
        self._dead_letters = dead_letters
        self._refusing = refusing
        self._syncs = syncs

    def collect(self) -> Iterator[Metric]:
        scheduler = self._scheduler()
        yield from _applications(self._tally, scheduler.applications if scheduler else ())
        yield from _work(self._tally)
        yield GaugeMetricFamily(
            "esg_journal_full",
            "1 while new requests are refused for want of room for the journal",
            value=bool(self._refusing()),
        )
        yield CounterMetricFamily(
            "esg_journal_syncs",
            "syncs of the journal: one serves all answers that wait for it",
            value=self._syncs(),
        )
        if self._dead_letters is not None:
            yield _put_aside(self._dead_letters)
        if scheduler is not None:
            state = scheduler.state
            under_way = len(state.requests)
            yield GaugeMetricFamily("esg_under_way", "requests under way", value=under_way)
            yield from _queues(state)
            yield from _nodes(list(state.nodes.values()), scheduler.catalog)
            yield from _profiles(drifts(state, scheduler.catalog))


def _applications(tally: Counters, known: Iterable[str]) -> Iterator[Metric]:
    """Those that were never asked for have zeros: a rate misses what a series begins with."""
    ended = CounterMetricFamily(
        "esg_requests", "requests by what became of them", labels=["application", "outcome"]
    )
    in_time = CounterMetricFamily(
        "esg_requests_in_time", "requests answered within their SLO", labels=["application"]
    )
    due = CounterMetricFamily(
        "esg_requests_due",
        "requests that hit rate and cost are of: done, failed, dropped, or refused for overload",
        labels=["application"],
    )
    cost = CounterMetricFamily(
        "esg_cost_dollars", "what requests have cost", labels=["application"]
    )
    never = ApplicationCounters()
    for name in sorted({*tally.applications, *known}):
        served = tally.applications.get(name, never).served
        for outcome in (*Outcome, "refused"):
            if outcome is not Outcome.INVALID:  # those are among the refused
                ended.add_metric([name, outcome], getattr(served, outcome))
        in_time.add_metric([name], served.in_time)
        due.add_metric([name], served.due)
        cost.add_metric([name], to_usd(served.cost_pusd))
    yield from (ended, in_time, due, cost)


def _work(tally: Counters) -> Iterator[Metric]:
    yield CounterMetricFamily("esg_tasks", "tasks started", value=tally.tasks)
    yield CounterMetricFamily(
        "esg_tasks_continued",
        "of those, how many nodes began by a standing order",
        value=tally.continued,
    )
    yield CounterMetricFamily("esg_jobs", "jobs in those tasks", value=tally.jobs)
    yield CounterMetricFamily(
        "esg_cold_starts", "tasks that waited for a model", value=tally.cold_starts
    )
    transfers = CounterMetricFamily(
        "esg_transfers", "data read by stages, on its own node or from another", labels=["kind"]
    )
    transfers.add_metric(["local"], tally.local_transfers)
    transfers.add_metric(["remote"], tally.remote_transfers)
    yield transfers


def _queues(state: State) -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "esg_queue_jobs", "jobs that wait in an AFW queue", labels=["application", "stage"]
    )
    for queue in state.queues.values():
        waiting.add_metric([queue.application, queue.stage], len(queue.jobs))
    yield waiting


def _put_aside(dead_letters: DeadLetters) -> Metric:
    events = CounterMetricFamily(
        "esg_dead_letters",
        "events that the scheduler failed at, and their repeats that were refused",
        labels=["how"],
    )
    events.add_metric(["failed"], dead_letters.failed)
    events.add_metric(["refused"], dead_letters.refused)
    return events


def _nodes(nodes: list[NodeBooks], catalog: Catalog) -> Iterator[Metric]:
    slices = GaugeMetricFamily("esg_slices", "slices of a node", labels=["node", "state", "kind"])
    vcpus = GaugeMetricFamily("esg_vcpus", "vCPUs of a node", labels=["node", "state"])
    for node in nodes:
        for kind in counts(part.kind for part in node.slices):
            own = [part for part in node.slices if part.kind == kind]
            for state, count in slice_counts(own).items():
                slices.add_metric([node.invoker, state, real_name(catalog, kind) or "usual"], count)
        vcpus.add_metric([node.invoker, "busy"], node.vcpus - node.vcpus_free)
        vcpus.add_metric([node.invoker, "free"], node.vcpus_free)
    yield from (slices, vcpus)


def _profiles(found: list[Drift]) -> Iterator[Metric]:
    labels = ["function", "batch", "kind"]
    measured = GaugeMetricFamily(
        "esg_profile_measured_ratio",
        "median time of the latest tasks, as a multiple of their profile",
        labels=labels,
    )
    planned = GaugeMetricFamily(
        "esg_profile_planned_ratio",
        "time that tasks are planned with, as a multiple of their profile",
        labels=labels,
    )
    for drift in found:
        values = [drift.function, str(drift.batch), drift.kind]
        measured.add_metric(values, drift.measured_ppm / PPM)
        planned.add_metric(values, drift.planned_ppm / PPM)
    yield from (measured, planned)
