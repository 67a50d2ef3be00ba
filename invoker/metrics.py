"""A node in numbers, for Prometheus."""

from collections import Counter as Counts
from collections.abc import Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from esg.core.catalog.phases import Phases
from esg.core.catalog.slice_kinds import counts
from esg.core.messages.events import InvokerNews, TaskFailed, TaskFinished
from esg.core.metrics import slice_counts
from esg.core.pool.pool import Pool
from esg.runtime.metrics_page import LATENCY_BUCKETS_S


class NodeMetrics(Collector):
    """Told what the controller is told, and asked about the rest. `usual` is what slices are called
    whose kind has no name in the pool."""

    def __init__(self, pool: Pool, usual: str = "") -> None:
        self._pool = pool
        self._usual = usual or "usual"
        self._tasks = Counter("esg_node_tasks", "tasks that have ended", ["outcome"], registry=None)
        for outcome in ("finished", "failed"):
            self._tasks.labels(outcome)  # zeros: a rate misses what a series begins with
        self._running = Histogram(
            "esg_node_running_seconds",
            "what tasks took, once their models were there",
            buckets=LATENCY_BUCKETS_S,
            registry=None,
        )
        self._loading = Histogram(
            "esg_node_loading_seconds",
            "what tasks waited for models (cold starts alone)",
            buckets=LATENCY_BUCKETS_S,
            registry=None,
        )

        self._phases = Histogram(
            "esg_node_phase_seconds",
            "what the phases of tasks took that run in phases, and what they waited for their turn",
            ["phase"],
            buckets=LATENCY_BUCKETS_S,
            registry=None,
        )
        for phase in ("before", "slices", "after", "waited"):
            self._phases.labels(phase)

    def reported(self, news: InvokerNews) -> None:
        if isinstance(news, TaskFinished):
            self._tasks.labels("finished").inc()
            self._running.observe(news.running_us / 1e6)
            if news.loading_us:
                self._loading.observe(news.loading_us / 1e6)
            if news.phases is not None:
                self._in_phases(news.phases, news.running_us)
        elif isinstance(news, TaskFailed):
            self._tasks.labels("failed").inc()

    def _in_phases(self, phases: Phases, running_us: int) -> None:
        """What is left of a task's time is what it waited: for vCPUs, and for slices."""
        self._phases.labels("before").observe(phases.before_us / 1e6)
        self._phases.labels("slices").observe(phases.slices_us / 1e6)
        self._phases.labels("after").observe(phases.after_us / 1e6)
        self._phases.labels("waited").observe(max(0, running_us - phases.total_us) / 1e6)

    def collect(self) -> Iterator[Metric]:
        for counted in (self._tasks, self._running, self._loading, self._phases):
            yield from counted.collect()
        yield from _resources(self._pool, self._usual)
        yield _models(self._pool)


def _resources(pool: Pool, usual: str) -> Iterator[Metric]:
    slices = GaugeMetricFamily("esg_node_slices", "slices", labels=["state", "kind"])
    for kind in counts(part.kind for part in pool.slices):
        own = [part for part in pool.slices if part.kind == kind]
        for state, count in slice_counts(own).items():
            slices.add_metric([state, kind or usual], count)
    vcpus = GaugeMetricFamily("esg_node_vcpus", "vCPUs", labels=["state"])
    vcpus.add_metric(["busy"], pool.vcpus - pool.vcpus_free)
    vcpus.add_metric(["free"], pool.vcpus_free)
    yield from (slices, vcpus)


def _models(pool: Pool) -> Metric:
    found = GaugeMetricFamily(
        "esg_node_models", "slices that have a function's model", labels=["function", "state"]
    )
    there = Counts(
        (function, model.state.value)
        for part in pool.slices
        for function, model in part.models.items()
    )
    for (function, state), count in sorted(there.items()):
        found.add_metric([function, state], count)
    return found
