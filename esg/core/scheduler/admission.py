"""Admission control and load shedding: which requests are refused, and which are dropped later.

Queues are bounded (`SchedulerSettings.max_waiting`); when all together are too long, applications
with more than an equal share are refused (`max_waiting_in_all`). Beyond that it is for an
application to say what becomes of requests that will be late (`Application.late_requests`). Those
of most are finished as well as possible. Those of an application that drops them are refused when,
going by how often its requests have been answered lately, a new one would not be done in time; and
once not even the fastest configs can save one that is waiting, it is dropped before it takes a
slice from others.

How often requests are answered is measured while others of the same application wait: at other
times it says how often they come, not how often they could be done. Until something is measured,
it is computed from the profiles, as if all slices were there for this application alone.

A worked example: `scan` drops late requests and promises 300 ms. Twelve are under way, some of them
waiting, and lately one has been answered every 40 ms. A thirteenth would be answered after 520 ms,
13 times 40. It is refused, with the advice to come back in 220 ms: if no others come, it will be in
time then.
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


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request is not admitted, and when it may be worth coming back."""

    kind: RefusalKind
    reason: str
    retry_after_us: int | None = None


def observe_done(traffic: Traffic, now_us: int, *, waiting: bool) -> None:
    """Note that a request was answered, and whether others of its application wait now.

    >>> traffic = Traffic()
    >>> for at, waiting in ((0, True), (40, True), (40, True), (80, False)):
    ...     observe_done(traffic, at, waiting=waiting)
    >>> traffic.answers.average_us  # 40, then a quarter of the way to 20: two were answered at 40
    35
    >>> observe_done(traffic, 5000, waiting=True)  # nobody waited in between
    >>> traffic.answers.average_us
    35
    """
    observe_interval(traffic.answers, now_us, counts=traffic.backlogged)
    traffic.backlogged = waiting


class AdmissionControl:
    """Admission control at the door, and load shedding in the queues.

    `end` answers a request and forgets it.
    """

    def __init__(self, books: Books, end: Callable[[Request, Outcome, str, int], None]) -> None:
        self._state = state = books.state
        self._settings = books.settings
        self._end = end
        self._queues: dict[str, list[Queue]] = {}
        for queue in state.queues.values():
            self._queues.setdefault(plain_name(queue.application), []).append(queue)
        self._dropping = [(state.queues[name], us) for name, us in saving_us(books.planned).items()]
        self.drops = bool(self._dropping)
        """Whether any application wants its late requests dropped."""

    def rejection(self, name: str, application: Application, slo_us: int) -> Rejection | None:
        """Why a new request is not admitted, if it is not; `name` is the application's plain
        one."""
        settings, drops = self._settings, application.late_requests is LateRequests.DROP
        if not (drops or settings.max_waiting or settings.max_waiting_in_all):
            return None
        waiting = self._waiting(name)
        traffic = self._state.traffic.get(name, Traffic())
        if self._is_full(name, waiting):
            retry_us = self._interval_us(traffic, application) or UNKNOWN_RETRY_US
            return _overloaded(f"{waiting} jobs of {name} are waiting", retry_us)
        if drops and waiting:
            expected_us = (traffic.under_way + 1) * self._interval_us(traffic, application)
            if expected_us > slo_us:
                reason = (
                    f"{name} would take about {to_ms(expected_us):.0f} ms now, with "
                    f"{traffic.under_way} requests under way; its SLO is {to_ms(slo_us):g} ms"
                )
                return _overloaded(reason, expected_us - slo_us)
        return None

    def _interval_us(self, traffic: Traffic, application: Application) -> int:
        """The time between answers: measured, or computed at the minimum configs; 0 if there are
        no slices."""
        slices = sum(len(node.slices) for node in self._state.open_nodes().values())
        if traffic.answers.average_us or not slices:
            return traffic.answers.average_us
        profiles = [stage.function.profile for stage in application.stages.values()]
        return sum(p.time_us_of(p.minimum) * p.minimum.vgpus for p in profiles) // slices

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

    def _is_full(self, name: str, waiting: int) -> bool:
        own, in_all = self._settings.max_waiting, self._settings.max_waiting_in_all
        if own and waiting >= own:
            return True
        if not in_all:
            return False
        counts = [self._waiting(other) for other in self._queues if other != name]
        others = [count for count in counts if count]
        return waiting + sum(others) >= in_all and waiting * (1 + len(others)) >= in_all

    def _waiting(self, name: str) -> int:
        return sum([len(queue.jobs) for queue in self._queues.get(name, ())])


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


def _overloaded(reason: str, retry_us: int) -> Rejection:
    advice = f"; try again in {max(1, round(to_ms(retry_us)))} ms"
    return Rejection(RefusalKind.OVERLOADED, reason + advice, retry_us)
