"""What became of the requests that came by here, for Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mesh.metrics import LATENCY_BUCKETS_S
from protos import model_v1_pb2 as model


class RequestMetrics(Collector):
    """`under_way` says how many requests there are at the moment."""

    def __init__(self, under_way: Callable[[], int]) -> None:
        self._under_way = under_way
        self._ended = Counter(
            "esg_gateway_requests",
            "requests that have ended",
            ["application", "outcome", "in_time"],
            registry=None,
        )
        self._latency = Histogram(
            "esg_gateway_latency_seconds",
            "from a request's arrival at the controller to its result",
            ["application"],
            buckets=LATENCY_BUCKETS_S,
            registry=None,
        )

    def ended(self, result: model.Result) -> None:
        outcome = model.Outcome.Name(result.outcome).removeprefix("OUTCOME_").lower()
        in_time = "yes" if result.slo_met else "no"
        self._ended.labels(result.application, outcome, in_time).inc()
        if result.outcome == model.OUTCOME_DONE:
            self._latency.labels(result.application).observe(result.latency_us / 1e6)

    def collect(self) -> Iterator[Metric]:
        yield from self._ended.collect()
        yield from self._latency.collect()
        yield GaugeMetricFamily(
            "esg_gateway_under_way", "requests under way", value=self._under_way()
        )
