"""What Prometheus learns of the whole mesh."""

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from esg.controller.counters import Counters
from esg.controller.metrics import MeshMetrics
from esg.core.messages.commands import (
    AdmitRequest,
    AnswerRequest,
    RefusalKind,
    RefuseRequest,
    StartTask,
)
from esg.core.messages.events import TaskFinished
from esg.core.messages.outcome import Outcome
from esg.core.state.state import Measured
from esg.units import PUSD_PER_USD, ms
from tests.support.desk import Desk, arrived, joined


def test_queues_slices_and_vcpus_are_those_of_the_books(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    (command,) = [command for command in desk.orders if isinstance(command, StartTask)]
    order = command.order
    value = values_of(desk, Counters())
    taken = len(order.slices)
    node = desk.scheduler.state.nodes["i0"]
    assert value("esg_slices", node="i0", state="busy", kind="usual") == taken > 0
    assert value("esg_slices", node="i0", state="free", kind="usual") == len(node.slices) - taken
    assert value("esg_slices", node="i0", state="lost", kind="usual") == 0
    assert value("esg_vcpus", node="i0", state="busy") == order.config.vcpus
    assert value("esg_under_way") == 1
    waiting = {"application": command.decision.application, "stage": order.stage}
    assert value("esg_queue_jobs", **waiting) == 0


def test_jobs_that_nobody_can_take_are_seen_waiting(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1"), arrived("r2"))
    (queue,) = [queue for queue in desk.scheduler.state.queues.values() if queue.jobs]
    value = values_of(desk, Counters())
    assert value("esg_queue_jobs", application=queue.application, stage=queue.stage) == 2


def test_requests_are_counted_by_what_became_of_them(desk: Desk) -> None:
    tally = Counters()
    for _ in range(6):
        tally.admitted(ADMITTED)
    for kind in (RefusalKind.INVALID, RefusalKind.IMPOSSIBLE, RefusalKind.OVERLOADED):
        tally.refused(refusal(kind))
    tally.answered(answer(Outcome.DONE, in_time=True), ms(100))
    tally.answered(answer(Outcome.DONE, in_time=False), ms(100))
    tally.answered(answer(Outcome.FAILED, in_time=False), ms(100))
    tally.answered(answer(Outcome.CANCELLED, in_time=False), ms(100))
    for _ in range(2):
        tally.answered(answer(Outcome.DROPPED, in_time=False), ms(100))
    tally.finished(TaskFinished(task="t1", invoker="i0", loading_us=5, running_us=5))
    value = values_of(desk, tally)
    ends = {"done": 2, "failed": 1, "cancelled": 1, "dropped": 2, "refused": 3}
    for outcome, count in ends.items():
        assert value("esg_requests_total", application="photo", outcome=outcome) == count
    told = tally.applications["photo"].to_wire("photo")
    assert {outcome: getattr(told, outcome) for outcome in ends} == ends
    assert (told.arrived, told.overloaded) == (9, 1)
    assert value("esg_requests_in_time_total", application="photo") == 1
    assert value("esg_cost_dollars_total", application="photo") == 6
    assert value("esg_cold_starts_total") == 1


def test_applications_have_zeros_before_their_first_request(desk: Desk) -> None:
    value = values_of(desk, Counters())
    assert desk.scheduler.applications
    for name in desk.scheduler.applications:
        assert value("esg_requests_total", application=name, outcome="failed") == 0
        assert value("esg_requests_due_total", application=name) == 0


def test_drift_of_profiles_is_a_ratio_to_the_profile(desk: Desk) -> None:
    measured = Measured(1, tasks=3, latest_us=ms(5), paces_ppm=[1_000_000, 1_500_000, 2_000_000])
    desk.scheduler.state.measured["detect"] = [measured]
    of_detect = {"function": "detect", "batch": "1", "kind": ""}
    value = values_of(desk, Counters())
    assert value("esg_profile_measured_ratio", **of_detect) == 1.5
    assert value("esg_profile_planned_ratio", **of_detect) == 1.0
    del desk.scheduler.state.measured["detect"]  # for the desk tells its story again


def test_the_hit_rate_is_not_of_mistakes_nor_of_what_was_called_off(desk: Desk) -> None:
    tally = Counters()
    tally.answered(answer(Outcome.DONE, in_time=True), ms(100))
    tally.answered(answer(Outcome.CANCELLED, in_time=False), ms(100))
    tally.refused(refusal(RefusalKind.IMPOSSIBLE))

    def due() -> float:
        value: float = values_of(desk, tally)("esg_requests_due_total", application="photo")
        return value

    assert due() == 1
    tally.refused(refusal(RefusalKind.OVERLOADED))
    assert due() == 2
    for outcome in (Outcome.FAILED, Outcome.DROPPED, Outcome.DONE):
        tally.answered(answer(outcome, in_time=False), ms(100))
    assert due() == 5


ADMITTED = AdmitRequest(request="r1", application="photo@2", deadline_us=ms(50))


def refusal(kind: RefusalKind) -> RefuseRequest:
    return RefuseRequest(request="r1", application="photo", kind=kind, reason="")


def answer(outcome: Outcome, *, in_time: bool) -> AnswerRequest:
    return AnswerRequest(
        request="r1",
        application="photo",
        outcome=outcome,
        reason="",
        slo_met=in_time,
        arrived_us=0,
        deadline_us=ms(50),
        cost_pusd=PUSD_PER_USD,
        stages=(),
    )


def values_of(desk: Desk, tally: Counters) -> Any:
    registry = CollectorRegistry()
    registry.register(MeshMetrics(lambda: desk.scheduler, tally))
    assert generate_latest(registry)
    return lambda name, **labels: registry.get_sample_value(name, labels)
