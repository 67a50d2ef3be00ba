"""Redis as this process sees it, for Prometheus."""

from collections.abc import Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

BUCKETS_S = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class RedisMetrics(Collector):
    """Told by the connections. `data` carries all but what must be on disk, which has a connection
    of its own, `durable`."""

    def __init__(self) -> None:
        self._took = Histogram(
            "esg_redis_round_trip_seconds",
            "round trips to Redis that were answered",
            ["connection"],
            buckets=BUCKETS_S,
            registry=None,
        )
        self._commands = Counter(
            "esg_redis_commands", "commands in those round trips", ["connection"], registry=None
        )
        self._failures = Counter(
            "esg_redis_failures",
            "round trips without an answer, and commands that Redis refused",
            ["connection", "kind"],
            registry=None,
        )

    def connection(self, name: str) -> "ConnectionMetrics":
        """What a connection tells; there are zeros from the first moment, as a rate misses what a
        series begins with."""
        return ConnectionMetrics(
            self._took.labels(name),
            self._commands.labels(name),
            self._failures.labels(name, "unreachable"),
            self._failures.labels(name, "refused"),
        )

    def collect(self) -> Iterator[Metric]:
        for counted in (self._took, self._commands, self._failures):
            yield from counted.collect()


class ConnectionMetrics:
    """The series of one connection, looked up once: two microseconds for each round trip."""

    def __init__(
        self, took: Histogram, commands: Counter, unreachable: Counter, refused: Counter
    ) -> None:
        self._took = took
        self._commands = commands
        self._unreachable = unreachable
        self._refused = refused

    def answered(self, commands: int, took_s: float) -> None:
        self._took.observe(took_s)
        self._commands.inc(commands)

    def unreachable(self) -> None:
        self._unreachable.inc()

    def refused(self) -> None:
        self._refused.inc()
