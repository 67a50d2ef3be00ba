"""More requests than can be done: bounded queues, refusals with a time, and late requests."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.model import Application, Catalog
from esg.core.messages.commands import RefusalKind, RefuseRequest
from esg.core.messages.outcome import Outcome
from esg.core.scheduler.admission import observe_done
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.state.state import Traffic
from esg.units import ms, seconds
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    failed,
    finished,
    joined,
    lost,
    refuse,
    registered,
    retired,
    start,
)
from tests.support.small_catalog import SMALL

OpenDesk = Callable[..., Desk]


def dropping(*names: str) -> Catalog:
    """The small catalog, in which these applications drop late requests."""
    applications = {
        name: Application.of(
            name,
            application.stages.values(),
            slo_us=application.slo_us,
            late_requests=LateRequests.DROP if name in names else LateRequests.FINISH,
        )
        for name, application in SMALL.applications.items()
    }
    return replace(SMALL, applications=applications)


def limited(**limits: int) -> SchedulerSettings:
    return SchedulerSettings(prewarm=False, **limits)


# Bounded queues.


def test_an_application_has_only_so_many_jobs_waiting(open_desk: OpenDesk) -> None:
    desk = open_desk(settings=limited(max_waiting=2))
    desk.at(ms(0), arrived("r1"), arrived("r2"), arrived("r3"))
    assert desk.new_orders == [
        refuse(
            "r3",
            kind=RefusalKind.OVERLOADED,
            reason="2 jobs of scan are waiting; try again in 1000 ms",
            retry_after_us=ms(1000),
        )
    ]


def test_limit_of_one_application_does_not_concern_others(open_desk: OpenDesk) -> None:
    desk = open_desk(settings=limited(max_waiting=2))
    desk.at(ms(0), arrived("r1"), arrived("r2"), arrived("r3", "watch"))
    assert desk.orders == []


def test_refused_request_may_come_back(open_desk: OpenDesk) -> None:
    desk = open_desk(settings=limited(max_waiting=1))
    desk.at(ms(0), arrived("r1"), arrived("r2")).at(ms(1), joined("i0"))
    desk.at(ms(2), arrived("r2"))
    assert desk.new_orders == [start("t2", "scan/detect", "r2")]


def test_applications_with_more_than_their_share_are_refused_when_all_have_too_many(
    open_desk: OpenDesk,
) -> None:
    desk = open_desk(settings=limited(max_waiting_in_all=4))
    for n in range(4):
        desk.at(ms(n), arrived(f"flood{n}"))
    desk.at(ms(4), arrived("flood4"))
    assert desk.new_orders == [refuse("flood4")]
    desk.at(ms(5), arrived("r1", "watch"))
    assert desk.new_orders == []
    desk.at(ms(6), arrived("r2", "watch"), arrived("r3", "watch"), arrived("flood5"))
    assert desk.new_orders == [refuse("r3"), refuse("flood5")]


def test_the_time_to_come_back_goes_by_how_often_requests_are_answered(open_desk: OpenDesk) -> None:
    desk = open_desk(settings=limited(max_waiting=3))
    desk.at(ms(0), joined("i0", vgpus=1))
    for n in range(4):
        desk.at(ms(n), arrived(f"r{n}", "thumb"))
    desk.at(ms(10), finished("t1")).at(ms(40), finished("t2"))
    for n in range(4, 7):
        desk.at(ms(41), arrived(f"r{n}", "thumb"))
    assert [
        order.retry_after_us for order in desk.new_orders if isinstance(order, RefuseRequest)
    ] == [ms(30)]


def test_a_time_in_which_nobody_waited_does_not_make_the_time_to_come_back_longer(
    open_desk: OpenDesk,
) -> None:
    desk = open_desk(settings=limited(max_waiting=1))
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1", "thumb"), arrived("r2", "thumb"))
    desk.at(ms(10), finished("t1"))  # r2 was waiting, and is the next
    desk.at(ms(11), arrived("r3", "thumb")).at(ms(40), finished("t2"))
    desk.at(ms(41), arrived("r4", "thumb"))
    desk.at(ms(42), cancelled("r3"), cancelled("r4"))
    later_ms = 3_600_000
    desk.at(ms(later_ms), arrived("r5", "thumb"), finished("t3"))
    desk.at(ms(later_ms + 30_000), finished("t4"))
    desk.at(ms(later_ms + 30_001), arrived("r6", "thumb"), arrived("r7", "thumb"))
    desk.at(ms(later_ms + 30_002), arrived("r8", "thumb"))
    assert [
        order.retry_after_us for order in desk.new_orders if isinstance(order, RefuseRequest)
    ] == [ms(30)]


def test_the_time_to_come_back_follows_soon_when_answers_were_rare() -> None:
    traffic = Traffic()
    for n in range(100):  # one every 10 s, as long as a flood of others lasts
        observe_done(traffic, n * seconds(10), took_us=seconds(50), waiting=True)
    assert traffic.counted_us // traffic.counted == seconds(10)
    for n in range(1, 9):  # and then one a second, of those that had waited
        observe_done(traffic, seconds(990 + n), took_us=seconds(50), waiting=True)
    assert traffic.counted_us // traffic.counted < seconds(5)


# At the door, of applications that drop late requests.


def busy_scan(open_desk: OpenDesk) -> Desk:
    """One slice; r1 and r2 were answered 100 ms apart, while others waited; r3 runs, r4 waits."""
    desk = open_desk(catalog=dropping("scan"))
    desk.at(ms(0), joined("i0", vgpus=1, vcpus=1))
    desk.at(ms(0), arrived("r1")).at(ms(1), arrived("r2", slo_us=ms(2000)))
    desk.at(ms(100), finished("t1"))
    desk.at(ms(101), arrived("r3", slo_us=ms(2000)))
    desk.at(ms(200), finished("t2"))
    desk.at(ms(201), arrived("r4", slo_us=ms(2000)))
    return desk


def test_a_request_that_would_be_late_is_refused_with_the_time_to_come_back(
    open_desk: OpenDesk,
) -> None:
    desk = busy_scan(open_desk).at(ms(202), arrived("r5", slo_us=ms(299)))
    assert desk.new_orders == [
        refuse(
            "r5",
            reason="scan would take about 300 ms now, with 2 requests under way; its SLO is "
            "299 ms; try again in 1 ms",
            retry_after_us=ms(1),
        )
    ]


def test_request_that_would_just_be_in_time_is_admitted(open_desk: OpenDesk) -> None:
    desk = busy_scan(open_desk).at(ms(202), arrived("r5", slo_us=ms(300)))
    assert desk.new_orders == []


def test_waiting_time_is_reckoned_from_the_profiles_until_it_is_measured(
    open_desk: OpenDesk,
) -> None:
    desk = open_desk(catalog=dropping("scan")).at(ms(0), joined("i0", vgpus=1, vcpus=1))
    desk.at(ms(0), arrived("r1"), arrived("r2"), arrived("r3"))
    desk.at(ms(1), arrived("r4"))  # the fourth, at 100 ms each
    assert desk.new_orders == [refuse("r4", retry_after_us=ms(100))]


def test_request_is_admitted_while_no_other_waits(open_desk: OpenDesk) -> None:
    desk = busy_scan(open_desk).at(ms(250), cancelled("r4")).at(ms(251), arrived("r5"))
    assert desk.new_orders == []


def test_applications_that_finish_late_requests_refuse_none(open_desk: OpenDesk) -> None:
    desk = open_desk()
    desk.at(ms(0), joined("i0", vgpus=1, vcpus=1))
    for n in range(10):
        desk.at(ms(n), arrived(f"r{n}"))
    desk.at(ms(100), finished("t1")).at(ms(250), finished("t2"))
    desk.at(ms(251), arrived("r10"))
    assert not any(isinstance(order, RefuseRequest) for order in desk.orders)


# Dropped later.


def test_request_that_cannot_be_in_time_any_more_is_dropped_before_it_takes_a_slice(
    open_desk: OpenDesk,
) -> None:
    desk = open_desk(catalog=dropping("scan")).at(ms(0), arrived("r1"))
    desk.wake().wake().wake()  # the rounds of the recheck list
    assert desk.next_wake == ms(240) + 1  # detect takes 60 ms at best, and the SLO is 300 ms
    desk.wake()
    assert desk.new_orders == [
        answer(
            "r1",
            Outcome.DROPPED,
            reason="dropped before detect: 59.999 ms are left to the deadline, and the rest takes "
            "at least 60 ms",
            slo_met=False,
        )
    ]


def test_request_that_can_just_be_in_time_is_not_dropped(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=dropping("scan"))
    desk.at(ms(0), arrived("r1")).at(ms(240), joined("i0"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1", config=(1, 2, 2))]


def test_request_dropped_between_stages_leaves_nothing_behind(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=dropping("photo"))
    desk.at(ms(0), joined("i0"), arrived("r1", "photo"))
    desk.at(ms(521), finished("t1"))  # detect and label take 80 ms at best
    assert desk.new_orders == [answer("r1", Outcome.DROPPED), discard("i0", "r1")]


def test_late_requests_of_a_queue_are_dropped_and_others_are_not(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=dropping("scan"))
    desk.at(ms(0), arrived("r1"), arrived("r2", slo_us=ms(600)), arrived("r3"))
    desk.at(ms(250), joined("i0"))
    assert desk.new_orders[:2] == [answer("r1", Outcome.DROPPED), answer("r3", Outcome.DROPPED)]
    assert desk.new_orders[2] == start("t1", "scan/detect", "r2", config=(1, 1, 1))


def test_running_task_is_finished_even_if_it_is_late(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=dropping("scan"))
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(400), finished("t1"))
    assert desk.new_orders == [answer("r1", slo_met=False), discard("i0", "r1")]


def test_request_that_fails_too_late_to_be_tried_again_is_dropped(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=dropping("scan"))
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(250), failed("t1"))
    assert desk.new_orders == [answer("r1", Outcome.DROPPED)]


def test_requests_of_a_node_that_is_lost_too_late_are_dropped(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=dropping("scan"))
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(250), lost("i0"))
    assert desk.new_orders == [answer("r1", Outcome.DROPPED)]


def test_requests_that_are_finished_late_are_not_dropped(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1")).at(ms(1000), joined("i0"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1")]


def test_an_application_can_change_its_mind(open_desk: OpenDesk) -> None:
    """Requests under way go on as they began."""
    desk = open_desk(catalog=dropping("scan"))
    desk.at(ms(0), arrived("r1")).at(ms(1), registered("scan", "detect", slo_us=ms(300)))
    desk.at(ms(2), arrived("r2")).at(ms(400), joined("i0"))
    assert desk.orders == [
        answer("r1", Outcome.DROPPED),
        start("t1", "scan@2/detect", "r2"),
    ]


def test_records_of_an_application_that_is_gone_are_forgotten_with_the_next_change(
    open_desk: OpenDesk,
) -> None:
    """Not when a scheduler is restored: that one has to know just as much."""
    desk = open_desk().at(ms(0), joined("i0"), arrived("r1"), retired("scan"))
    desk.at(ms(100), finished("t1"))
    assert "scan" in desk.scheduler.state.clients[""].traffic
    desk.at(ms(101), retired("map"))
    assert "scan" not in desk.scheduler.state.clients[""].traffic


@pytest.mark.parametrize("late", [LateRequests.DROP, LateRequests.FINISH])
def test_fate_of_late_requests_can_be_registered(open_desk: OpenDesk, late: LateRequests) -> None:
    desk = open_desk()
    event = changed(registered("fresh", "resize", slo_us=ms(50)), late_requests=late)
    desk.at(ms(0), event, arrived("r1", "fresh")).at(ms(60), joined("i0"))
    dropped = answer("r1", Outcome.DROPPED)
    ran = start("t1", "fresh/resize", "r1")
    assert desk.new_orders == [dropped if late is LateRequests.DROP else ran]
