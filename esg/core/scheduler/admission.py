"""Admission control and load shedding: which requests are refused, and which are dropped later.

Waiting is bounded for each client and application by themselves: as time
(`SchedulerSettings.max_wait_us`), and as a number of jobs (`max_waiting`). When all queues together
are too long, those with more than an equal share are refused (`max_waiting_in_all`): clients first,
then the applications of one. Beyond that it is for an application to say what becomes of requests
that will be late (`Application.late_requests`). Those of most are finished as well as possible.
Those of an application that drops them are refused when a new one would not be done in time; and
once not even the fastest configs can save one that is waiting, it is dropped before it takes a
slice from others.

When a new request would be done goes by how often such requests, of the same client for the same
application, have been answered lately. That is measured while others of them wait: at other times
it says how often they come, not how often they could be done. Until something is measured, it is
computed from the profiles, as if all slices were there for them alone. Deadlines are near, so what
they are compared with is a moving average of the latest few; how long hundreds wait goes by the
mean of many, or of those of the last minute: where answers are rare, a hundred of them tell of
times that are long over. Neither is ever longer than the latest one took in all: a time without
nodes says nothing about what comes after it.

A worked example: `scan` drops late requests and promises 300 ms. Twelve are under way, some of them
waiting, and lately one has been answered every 40 ms. A thirteenth would be answered after 520 ms,
13 times 40. It is refused, with the advice to come back in 220 ms: if no others come, it will be in
time then. If nobody is to wait for longer than 400 ms, the advice of any application would be to
come back in 120 ms. And where twelve jobs fill the queue, it is 40 ms: the time until one of them
has gone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.model import Application, Catalog
from esg.core.estimation.ewma import observe_interval
from esg.core.messages.commands import RefusalKind
from esg.core.messages.outcome import Outcome
from esg.core.scheduler.books import Books
from esg.core.state.state import Job, Queue, Request, Traffic
from esg.names import plain_name, queue_name
from esg.units import NEVER_US, seconds, to_ms

UNKNOWN_RETRY_US = seconds(1)
"""When to come back, if there are no slices at all."""

MOST_COUNTED = 127
"""How many answers a mean is of, at most; at least half as many, once there were."""

MOST_COUNTED_US = seconds(60)
FEWEST_COUNTED = 8
"""Nor is it of more than so long, as soon as it is of so many."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request is not admitted, and when it may be worth coming back."""

    kind: RefusalKind
    reason: str
    retry_after_us: int | None = None


def observe_done(traffic: Traffic, now_us: int, *, took_us: int, waiting: bool) -> None:
    """Note that a request was answered, after how long, and whether others like it wait now.

    >>> traffic = Traffic()
    >>> for at, waiting in ((0, True), (40, True), (40, True), (80, False)):
    ...     observe_done(traffic, at, took_us=60, waiting=waiting)
    >>> traffic.answers.average_us  # 40, then a quarter of the way to 20: two were answered at 40
    35
    >>> traffic.counted_us, traffic.counted
    (80, 3)
    >>> observe_done(traffic, 5000, took_us=60, waiting=True)  # nobody waited in between
    >>> traffic.answers.average_us
    35
    >>> observe_done(traffic, 9000, took_us=4060, waiting=False)  # no node was there
    >>> traffic.counted_us, traffic.counted, traffic.answers.average_us
    (4080, 4, 1026)
    >>> observe_done(traffic, 9100, took_us=60, waiting=False)  # and now one is
    >>> traffic.counted_us, traffic.counted, traffic.answers.average_us
    (240, 4, 60)
    """
    if traffic.backlogged:
        traffic.counted += 1
        traffic.counted_us += now_us - traffic.answers.latest_us
        rare = traffic.counted_us > MOST_COUNTED_US and traffic.counted >= FEWEST_COUNTED
        if rare or traffic.counted > MOST_COUNTED:
            traffic.counted //= 2
            traffic.counted_us //= 2
    if traffic.counted_us > took_us * traffic.counted:
        traffic.counted_us = took_us * traffic.counted
    observe_interval(traffic.answers, now_us, counts=traffic.backlogged)
    traffic.answers.average_us = min(traffic.answers.average_us, took_us)
    traffic.backlogged = waiting


def observe_gone(traffic: Traffic) -> None:
    """Note that a request has ended without being done. If it was the last one, nobody waits until
    the next one comes: the time in between says nothing about how often they are answered.

    >>> traffic = Traffic()
    >>> observe_done(traffic, 0, took_us=60, waiting=True)
    >>> observe_gone(traffic)  # the one that waited
    >>> observe_done(traffic, 5000, took_us=60, waiting=False)
    >>> traffic.answers.average_us, traffic.counted
    (0, 0)
    """
    if not traffic.under_way:
        traffic.backlogged = False


class AdmissionControl:
    """Admission control at the door, and load shedding in the queues.

    `end` answers a request and forgets it.
    """

    def __init__(self, books: Books, end: Callable[[Request, Outcome, str, int], None]) -> None:
        self._state = state = books.state
        self._prices = books.catalog.prices
        self._busy = books.busy
        self._shares = books.shares
        self._settings = books.settings
        self._end = end
        self._queues: dict[str, list[Queue]] = {}
        for queue in state.queues.values():
            self._queues.setdefault(plain_name(queue.application), []).append(queue)
        self._dropping = [(state.queues[name], us) for name, us in saving_us(books.planned).items()]
        self.drops = bool(self._dropping)
        """Whether any application wants its late requests dropped."""

    def rejection(
        self, client: str, name: str, application: Application, slo_us: int
    ) -> Rejection | None:
        """Why a new request is not admitted, if it is not; `name` is the application's plain
        one."""
        settings, drops = self._settings, application.late_requests is LateRequests.DROP
        max_wait_us = settings.max_wait_us
        if not (drops or max_wait_us or settings.max_waiting or settings.max_waiting_in_all):
            return None
        client = self._shares.payer(client)
        waiting = self._waiting(client, name)
        if not waiting:
            return None
        traffic = self._traffic(client, name)
        mean_us = traffic.counted_us // traffic.counted if traffic.counted else 0
        mean_us = mean_us or self._computed_us(application)
        excess = self._excess(client, name, waiting)
        if excess:
            retry_us = excess * mean_us or UNKNOWN_RETRY_US
            return _overloaded(f"{waiting} jobs of {name} are waiting", retry_us)
        under_way = traffic.under_way
        if drops:
            lately_us = traffic.answers.average_us or self._computed_us(application)
            expected_us = (under_way + 1) * lately_us
            if expected_us > slo_us:
                return _too_long(name, expected_us, under_way, "its SLO is", slo_us)
        expected_us = (under_way + 1) * mean_us
        if max_wait_us and expected_us > max_wait_us:
            return _too_long(name, expected_us, under_way, "the longest wait is", max_wait_us)
        return None

    def _traffic(self, client: str, name: str) -> Traffic:
        found = self._state.clients.get(client)
        return (found and found.traffic.get(name)) or Traffic()

    def _computed_us(self, application: Application) -> int:
        """The time between answers at the minimum configs; 0 if there are no slices."""
        prices = self._prices
        nodes = self._state.open_nodes().values()
        slices = sum(prices.usual_slices_of(node.count_kinds()) for node in nodes)
        if not slices:
            return 0
        profiles = [stage.function.profile for stage in application.stages.values()]
        return int(sum(p.vgpu_us_of(p.minimum) for p in profiles) // slices)

    def shed_expired(self, now_us: int) -> None:
        """Load shedding: answer those that cannot be done in time any more."""
        for queue, fastest_us in self._dropping:
            if queue.drop_at_us <= now_us:
                self._drop_from(queue, fastest_us, now_us)

    def _drop_from(self, queue: Queue, fastest_us: int, now_us: int) -> None:
        hopeless = [job for job in queue.jobs if drop_at_us(job, fastest_us) <= now_us]
        for job in hopeless:
            left_us = max(0, job.deadline_us - now_us)
            reason = (
                f"dropped before {queue.stage}: {to_ms(left_us):g} ms are left to the "
                f"deadline, and the rest takes at least {to_ms(fastest_us):g} ms"
            )
            self._end(self._state.requests[job.request], Outcome.DROPPED, reason, now_us)
        queue.drop_at_us = min((drop_at_us(j, fastest_us) for j in queue.jobs), default=NEVER_US)

    def _excess(self, client: str, name: str, waiting: int) -> int:
        """How many of those that wait have to go before there is room for one more; 0 if there
        is."""
        own, in_all = self._settings.max_waiting, self._settings.max_waiting_in_all
        if own and waiting >= own:
            return waiting - own + 1
        if not in_all or sum([len(queue.jobs) for queue in self._busy.values()]) < in_all:
            return 0
        counts = self._counts()
        of_client = counts.pop(client, {})
        of_client[name] = waiting
        clients, applications = len(counts) + 1, len(of_client)
        if sum(of_client.values()) * clients < in_all:
            return 0
        share = -(-in_all // (clients * applications))
        return max(0, waiting - share + 1)

    def _counts(self) -> dict[str, dict[str, int]]:
        """How many jobs wait, by client and application."""
        counts: dict[str, dict[str, int]] = {}
        for queue in self._busy.values():
            name = plain_name(queue.application)
            for client, count in queue.lanes.items():
                of_client = counts.setdefault(client, {})
                of_client[name] = of_client.get(name, 0) + count
        return counts

    def _waiting(self, client: str, name: str) -> int:
        return sum([queue.lanes.get(client, 0) for queue in self._queues.get(name, ())])


def saving_us(catalog: Catalog) -> dict[str, int]:
    """By queue, of applications that drop late requests: the least time that the rest takes."""
    return {
        queue_name(application.name, stage): time_us
        for application in catalog.applications.values()
        if application.late_requests is LateRequests.DROP
        for stage, time_us in application.fastest_us().items()
    }


def drop_at_us(job: Job, fastest_us: int) -> int:
    """When a job is past saving: a microsecond after it could just have been done in time."""
    return job.deadline_us - fastest_us + 1


def _too_long(name: str, expected_us: int, under_way: int, bound: str, most_us: int) -> Rejection:
    reason = (
        f"{name} would take about {to_ms(expected_us):.0f} ms now, with {under_way} requests under "
        f"way; {bound} {to_ms(most_us):g} ms"
    )
    return _overloaded(reason, expected_us - most_us)


def _overloaded(reason: str, retry_us: int) -> Rejection:
    advice = f"; try again in {max(1, round(to_ms(retry_us)))} ms"
    return Rejection(RefusalKind.OVERLOADED, reason + advice, retry_us)
