"""The way of a request: admitted or refused, queued, started, answered."""

from collections.abc import Callable, Iterable

import pytest

from esg.core.catalog.config import Config
from esg.core.messages.commands import (
    AdmitRequest,
    AnswerRequest,
    Decision,
    RefusalKind,
    StageReport,
    StartTask,
)
from esg.core.messages.outcome import Outcome
from esg.core.messages.task_order import JobOrder, Payload, TaskOrder
from esg.core.policies.esg import Engines, Esg
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy
from esg.core.state.state import Queue
from esg.errors import Bug
from esg.units import ms
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    discard,
    finished,
    job,
    joined,
    refuse,
    registered,
    start,
    started,
)

# From the first stage to the answer.


def test_a_request_goes_through_its_chain_and_is_answered(desk: Desk) -> None:
    desk.at(ms(0), joined("i0")).at(ms(5), arrived("r1", "photo"))
    desk.at(ms(55), finished("t1", loading_us=ms(40), running_us=ms(10)))
    desk.at(ms(355), finished("t2", loading_us=ms(200), running_us=ms(100)))
    desk.at(ms(375), finished("t3", running_us=ms(20)))
    assert desk.orders == [
        start("t1", "photo/resize", "r1"),
        start("t2", "photo/detect", job("r1", resize="i0")),
        start("t3", "photo/label", job("r1", detect="i0")),
        AnswerRequest(
            request="r1",
            application="photo",
            outcome=Outcome.DONE,
            reason="",
            arrived_us=ms(5),
            deadline_us=ms(605),
            slo_met=True,
            cost_pusd=11 * ms(50 + 300 + 20),
            stages=(
                _report("resize", "t1", ready_ms=5, finished_ms=55, cost_pusd=11 * ms(50)),
                _report("detect", "t2", ready_ms=55, finished_ms=355, cost_pusd=11 * ms(300)),
                _report("label", "t3", ready_ms=355, finished_ms=375, cost_pusd=11 * ms(20)),
            ),
            results=("label",),
        ),
        discard("i0", "r1"),
    ]
    assert desk.next_wake is None


def _report(
    stage: str, task: str, *, ready_ms: int, finished_ms: int, cost_pusd: int
) -> StageReport:
    return StageReport(
        stage=stage,
        task=task,
        invoker="i0",
        config=Config(1, 1, 1),
        ready_us=ms(ready_ms),
        started_us=ms(ready_ms),
        finished_us=ms(finished_ms),
        cost_pusd=cost_pusd,
    )


def test_an_order_says_all_that_an_invoker_must_know(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    assert desk.orders == [
        StartTask(
            order=TaskOrder(
                task="t1",
                invoker="i0",
                stage="detect",
                function="detect",
                config=Config(1, 1, 1),
                slices=(0,),
                jobs=(JobOrder(request="r1", inputs=(Payload(),), publish=True),),
                keep=False,
                predicted_us=ms(100),
            ),
            decision=Decision(application="scan", effort=1, missed=False),
        )
    ]


def test_results_alone_are_published_as_they_are_made(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "photo"))
    desk.at(ms(10), finished("t1")).at(ms(110), finished("t2"))
    assert desk.orders == [
        start("t1", "photo/resize", job("r1", publish=False), keep=True),
        start("t2", "photo/detect", job("r1", resize="i0", publish=False), keep=True),
        start("t3", "photo/label", job("r1", detect="i0", publish=True), keep=False),
    ]


def test_a_join_waits_for_both_branches(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vcpus=8, vgpus=2), arrived("r1", "scene"))
    desk.at(ms(10), finished("t1"))
    assert desk.new_orders == [
        start("t2", "scene/depth", job("r1", resize="i0"), config=(1, 4, 1)),
        start("t3", "scene/detect", job("r1", resize="i0")),
    ]
    desk.at(ms(60), finished("t2"))
    assert desk.new_orders == []
    desk.at(ms(110), finished("t3"))
    assert desk.new_orders == [start("t4", "scene/label", job("r1", detect="i0", depth="i0"))]
    desk.at(ms(130), finished("t4"))
    assert desk.new_orders == [answer("r1"), discard("i0", "r1")]


@pytest.mark.parametrize(
    ("name", "planned"), [("esg", []), ("apex", []), ("orion", ["depth", "label"])]
)
def test_plan_travels_from_its_stage_on_if_the_policy_follows_it(
    open_desk: Callable[..., Desk], name: str, planned: list[str]
) -> None:
    desk = open_desk(policy=lambda catalog: policy(name, catalog, PolicySettings()))
    desk.at(ms(0), joined("i0", vcpus=8, memory_mb=450), arrived("r1", "scene"))
    desk.at(ms(10), finished("t1"))
    (waiting,) = desk.scheduler.state.queues["scene/depth"].jobs  # its model is too large
    assert [step.stage for step in waiting.planned] == planned


# Batches and queues.


class NearestDeadlineFirst(Esg):
    """Says nothing about queues whose deadlines are equal."""

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        return sorted(queues, key=lambda queue: queue.jobs[0].deadline_us)


def test_ties_that_a_policy_leaves_are_decided_as_they_would_be_after_a_restart(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(policy=lambda c: NearestDeadlineFirst(c, Engines("astar", group_size=3), k=5))
    desk.at(0, arrived("r1", "thumb", slo_us=ms(900)), arrived("r2", "scan", slo_us=ms(900)))
    desk.at(0, joined("i0"))
    assert [order.decision.application for order in desk.orders] == ["scan", "thumb"]


def test_two_jobs_of_one_queue_leave_as_one_task(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1")).at(ms(3), arrived("r2"), joined("i0"))
    assert desk.orders == [start("t1", "scan/detect", "r1", "r2")]
    desk.at(ms(153), finished("t1", running_us=ms(150)))
    share_pusd = 11 * ms(150) // 2
    assert desk.new_orders == [
        answer("r1", cost_pusd=share_pusd),
        discard("i0", "r1"),
        answer("r2", cost_pusd=share_pusd),
        discard("i0", "r2"),
    ]


def test_a_third_job_does_not_wait_for_a_fourth(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1"), arrived("r2"), arrived("r3")).at(ms(3), joined("i0"))
    assert desk.orders == [
        start("t1", "scan/detect", "r1", "r2"),
        start("t2", "scan/detect", "r3"),
    ]


def test_jobs_of_two_applications_do_not_mix_even_for_the_same_function(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1", "scan"), arrived("r2", "watch")).at(ms(3), joined("i0"))
    assert desk.orders == [
        start("t1", "scan/detect", "r1"),
        start("t2", "watch/detect", "r2"),
    ]


def test_queues_take_turns(desk: Desk) -> None:
    for name in ("r1", "r2", "r3"):
        desk.at(ms(0), arrived(name, "photo"))
    desk.at(ms(0), arrived("r4", "thumb"), arrived("r5", "thumb"))
    desk.at(ms(1), joined("i0", vgpus=3))
    assert desk.orders == [
        start("t1", "photo/resize", "r1"),
        start("t2", "thumb/resize", "r4"),
        start("t3", "photo/resize", "r2"),
    ]
    # whoever was visited longest ago comes first, in the next pass too
    desk.at(ms(11), finished("t2"))
    assert desk.new_orders[-1] == start("t4", "thumb/resize", "r5")


def test_jobs_leave_in_the_order_of_their_requests(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1))
    desk.at(ms(0), arrived("r1", "thumb"), arrived("r2", "thumb"), arrived("r3", "thumb"))
    desk.at(ms(10), finished("t1")).at(ms(20), finished("t2")).at(ms(30), finished("t3"))
    tasks = [order for order in desk.orders if isinstance(order, StartTask)]
    assert tasks == [start(f"t{n}", "thumb/resize", f"r{n}") for n in (1, 2, 3)]


# Plans.


def test_cheapest_plan_in_time_that_fits_is_taken(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vcpus=7, vgpus=7))
    for n in (1, 2, 3):
        desk.at(ms(0), arrived(f"r{n}", "map"))
    # 4 vCPUs are cheapest, then 2, then 1; 7, 3 and 1 are free
    assert desk.orders == [
        start("t1", "map/depth", "r1", config=(1, 4, 1)),
        start("t2", "map/depth", "r2", config=(1, 2, 1)),
        start("t3", "map/depth", "r3", config=(1, 1, 1)),
    ]


def test_no_more_than_k_plans_are_tried(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(policy=lambda catalog: policy("esg", catalog, PolicySettings(k=2)))
    desk.at(ms(0), joined("i0", vcpus=1), arrived("r1", "map"))
    assert desk.orders == []  # 1x4x1 and 1x2x1 do not fit, and 1x1x1 was not asked for
    desk.wake().wake().wake()
    assert desk.orders == [start("t1", "map/depth", "r1", config=(1, 1, 1))]


def test_a_plan_that_is_not_in_time_is_no_fallback(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vcpus=3), arrived("r1", "map", slo_us=ms(69)))
    assert desk.orders == []  # 1x4x1 does not fit, 1x2x1 takes 70 ms


def test_a_tighter_slo_of_its_own_buys_a_request_a_faster_config(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vcpus=8, vgpus=4))
    desk.at(ms(0), arrived("r1", slo_us=ms(99)), arrived("r2", slo_us=ms(100)))
    assert desk.orders == [
        start("t1", "scan/detect", "r1", config=(1, 2, 2)),
        start("t2", "scan/detect", "r2", config=(1, 1, 1)),
    ]


def test_time_spent_waiting_is_taken_from_what_is_left(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1")).at(ms(201), joined("i0"))
    assert desk.orders == [start("t1", "scan/detect", "r1", config=(1, 2, 2))]


def test_the_most_urgent_of_those_that_could_go_together_sets_the_pace(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1", slo_us=ms(900)), arrived("r2", slo_us=ms(110)))
    desk.at(ms(1), joined("i0", vcpus=4, vgpus=4))
    assert desk.orders == [start("t1", "scan/detect", "r1", "r2", config=(2, 2, 2))]


# Jobs that can no longer make it.


def test_hopeless_jobs_go_out_together_at_the_least_cost(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1"), arrived("r2")).at(ms(250), joined("i0"))
    assert desk.orders == [start("t1", "scan/detect", "r1", "r2", config=(2, 1, 1))]
    desk.at(ms(400), finished("t1"))
    assert desk.new_orders[0] == answer("r1", slo_met=False)


def test_jobs_behind_hopeless_ones_are_planned_for_by_themselves(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1")).at(ms(170), arrived("r2", slo_us=ms(150)))
    desk.at(ms(241), joined("i0", vcpus=4, vgpus=4))
    # r1 has 59 ms left, less than the fastest config takes; r2 has 79 ms
    assert desk.orders == [
        start("t1", "scan/detect", "r1", config=(1, 1, 1)),
        start("t2", "scan/detect", "r2", config=(1, 2, 2)),
    ]


def test_a_patient_job_does_not_pay_for_a_hopeless_one_behind_it(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1", slo_us=ms(5000)), arrived("r2", slo_us=ms(70)))
    desk.at(ms(50), joined("i0", vcpus=4, vgpus=4))
    assert (
        max(order.config.vgpus for order in started(desk.orders)) == 1
    )  # nobody is helped by a second slice


# Deadlines and refusals.


@pytest.mark.parametrize(("late_us", "met"), [(-1, True), (0, True), (1, False)])
def test_a_deadline_that_is_exactly_met_is_met(desk: Desk, late_us: int, met: bool) -> None:
    desk.at(ms(7), joined("i0"), arrived("r1"))
    desk.at(ms(307) + late_us, finished("t1"))
    assert desk.new_orders == [answer("r1", slo_met=met), discard("i0", "r1")]


def test_a_request_is_admitted_once_with_its_version_and_its_deadline(desk: Desk) -> None:
    desk.at(0, registered("scan", "detect")).at(ms(1), arrived("r1", slo_us=ms(400)), arrived("r1"))
    admitted = AdmitRequest(request="r1", application="scan@2", deadline_us=ms(401))
    assert desk.accepted[1:] == [admitted]


def test_an_unknown_application_is_refused_with_what_was_probably_meant(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "foto"))
    reason = "unknown application 'foto'; did you mean 'photo'?"
    kind = RefusalKind.UNKNOWN_APPLICATION
    assert desk.orders == [refuse("r1", application="foto", kind=kind, reason=reason)]


def test_an_slo_beyond_all_reckoning_is_refused(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", slo_us=2**70))
    assert desk.orders == [refuse("r1", kind=RefusalKind.INVALID)]


def test_an_slo_that_no_config_can_meet_is_refused_with_what_would_do(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "photo", slo_us=ms(89.5)))
    reason = "an SLO of 89.5 ms cannot be met: photo takes 90 ms with the fastest configs"
    assert desk.orders == [refuse("r1", kind=RefusalKind.IMPOSSIBLE, reason=reason)]


def test_an_slo_that_can_just_be_met_is_accepted(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", slo_us=ms(60)))
    assert desk.orders == [start("t1", "scan/detect", "r1", config=(1, 2, 2))]
    desk.at(ms(60), finished("t1"))
    assert desk.new_orders == [answer("r1", slo_met=True), discard("i0", "r1")]


def test_a_request_said_twice_is_one_request(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(5), arrived("r1"))
    desk.at(ms(100), finished("t1"))
    assert desk.orders == [start("t1", "scan/detect", "r1"), answer("r1"), discard("i0", "r1")]


def test_time_does_not_run_backwards(desk: Desk) -> None:
    desk.at(ms(5), joined("i0"))
    with pytest.raises(Bug, match="backwards"):
        desk.at(ms(4), arrived("r1"))
