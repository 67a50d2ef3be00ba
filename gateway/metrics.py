"""What became of the requests that came by here, for Prometheus."""

import asyncio
from collections.abc import Callable, Container, Iterator
from contextlib import suppress

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from esg.core.messages.outcome import Outcome
from esg.errors import Fault, Rejected
from esg.gateway.applications import Applications
from esg.gateway.audit import REFUSALS
from esg.gateway.request_table import RequestTable
from esg.protos import model_v1_pb2 as model
from esg.runtime.metrics_page import FORGET_S, LATENCY_BUCKETS_S, UnusedNames
from esg.runtime.wire.enums import outcome_from_wire


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
        self._refused = Counter(
            "esg_gateway_refusals",
            "calls and requests that were refused for who asked, or for how much",
            ["reason"],
            registry=None,
        )
        for code in REFUSALS:
            self._refused.labels(code.name.lower())  # zeros, as of applications
        self._series: dict[str, list[tuple[Counter | Histogram, tuple[str, ...]]]] = {}
        self._gone = UnusedNames()

    def begin(self, application: str) -> None:
        """Have zeros for an application: a rate misses what a series begins with."""
        if application in self._series:
            return
        ends = [(outcome, "no") for outcome in Outcome] + [(Outcome.DONE, "yes")]
        labels = [(application, outcome, in_time) for outcome, in_time in ends]
        for one in labels:
            self._ended.labels(*one)
        self._latency.labels(application)
        self._series[application] = [
            *((self._ended, one) for one in labels),
            (self._latency, (application,)),
        ]

    def ended(self, result: model.Result) -> None:
        self.begin(result.application)
        outcome = outcome_from_wire(result.outcome)
        done = outcome is Outcome.DONE
        in_time = "yes" if done and result.slo_met else "no"
        self._ended.labels(result.application, outcome, in_time).inc()
        if done:
            self._latency.labels(result.application).observe(result.latency_us / 1e6)

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def forget_gone(self, needed: Container[str]) -> None:
        """Forget applications that were not needed at the last look either."""
        for name in self._gone.look(self._series, needed):
            for metric, labels in self._series.pop(name):
                metric.remove(*labels)

    def collect(self) -> Iterator[Metric]:
        yield from self._ended.collect()
        yield from self._latency.collect()
        yield from self._refused.collect()
        yield GaugeMetricFamily(
            "esg_gateway_under_way", "requests under way", value=self._under_way()
        )


async def follow_applications(
    metrics: RequestMetrics, applications: Applications, table: RequestTable
) -> None:
    """Begin with the applications that there are, and forget those that are gone, whoever deleted
    them; runs as long as the gateway does."""
    while True:
        with suppress(Rejected, Fault):  # a controller that cannot be asked now: later, then
            known = {application.name for application in await applications.all("")}
            for name in sorted(known):
                metrics.begin(name)
            metrics.forget_gone(known | table.applications())
        await asyncio.sleep(FORGET_S)
