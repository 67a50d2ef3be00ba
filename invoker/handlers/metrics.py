"""The CPU parts of functions in numbers, for Prometheus."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)


class HandlerMetrics(Collector):
    """Told of every job; `workers_ended` counts the worker processes that had to be replaced."""

    def __init__(self, workers_ended: Mapping[str, int]) -> None:
        self._workers_ended = workers_ended
        self._took = Histogram(
            "esg_node_handler_seconds",
            "what handlers took for a job, before (prepare) and after the model (finish)",
            ["function", "method"],
            buckets=BUCKETS_S,
            registry=None,
        )
        self._failed = Counter(
            "esg_node_handler_failures",
            "jobs that a handler turned down, or failed at",
            ["function"],
            registry=None,
        )

    def begin(self, functions: Iterable[str]) -> None:
        """Have zeros for functions: a rate misses what a series begins with."""
        for function in functions:
            for method in ("prepare", "finish"):
                self._took.labels(function, method)
            self._failed.labels(function)

    def ended(self, function: str, method: str, took_s: float) -> None:
        self._took.labels(function, method).observe(took_s)

    def failed(self, function: str) -> None:
        self._failed.labels(function).inc()

    def collect(self) -> Iterator[Metric]:
        yield from self._took.collect()
        yield from self._failed.collect()
        workers = CounterMetricFamily(
            "esg_node_handler_workers_ended",
            "worker processes of handlers that were lost with a job, and replaced",
            labels=["reason"],
        )
        for reason, count in self._workers_ended.items():
            workers.add_metric([reason], count)
        yield workers
