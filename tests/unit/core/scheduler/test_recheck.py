"""The recheck list: what does not fit is tried again, and in the third round anything will do.

In most stories, `detect` must be done in 99 ms. Then only 1x2x2 is in time, and it needs both
slices of a node while `thumb` holds one of them.
"""

from collections.abc import Callable, Iterable, Mapping

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.messages.task_order import TaskOrder
from esg.core.policies.interface import Hold, Offer, Placement, Policy, QueueView
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Queue
from esg.units import ms
from tests.support.desk import (
    Desk,
    Some,
    answer,
    arrived,
    cancelled,
    discard,
    esg_policy,
    finished,
    joined,
    start,
    started,
)

URGENT = arrived("r1", slo_us=ms(99))


def occupied(desk: Desk) -> Desk:
    """One of two slices is taken."""
    desk.at(ms(0), joined("i0"), arrived("r0", "thumb"))
    assert desk.orders == [start("t1", "thumb/resize", "r0")]
    return desk


def test_task_that_fits_nowhere_waits(desk: Desk) -> None:
    occupied(desk).at(ms(0), URGENT)
    assert desk.new_orders == []


def test_waiting_task_is_tried_again_when_something_is_given_back(desk: Desk) -> None:
    occupied(desk).at(ms(0), URGENT).at(ms(3), finished("t1"))
    assert desk.new_orders == [
        answer("r0"),
        discard("i0", "r0"),
        start("t2", "scan/detect", "r1", config=(1, 2, 2)),
    ]


def test_other_queues_go_on_while_a_task_waits_for_room(desk: Desk) -> None:
    occupied(desk).at(ms(0), URGENT).at(ms(1), arrived("r2", "watch"))
    assert desk.new_orders == [start("t2", "watch/detect", "r2")]


def test_the_alarm_drives_the_rounds_and_the_third_takes_the_minimum_config(desk: Desk) -> None:
    occupied(desk).at(ms(0), URGENT)
    for round_ms in (5, 10):
        desk.wake()
        assert (desk.now_us, desk.new_orders) == (ms(round_ms), [])
    desk.wake()
    assert desk.now_us == ms(15)
    assert desk.new_orders == [start("t2", "scan/detect", "r1", config=(1, 1, 1))]


def test_releases_that_do_not_help_are_rounds_too(desk: Desk) -> None:
    nodes = ("i0", "i1", "i2")
    desk.at(ms(0), *(joined(node) for node in nodes))
    desk.at(ms(0), *(arrived(f"s{n}", "thumb") for n in range(6)), URGENT)
    held = {order.invoker: order.task for order in started(desk.orders)}
    # each node gets one free slice, none gets two
    for moment, node in enumerate(nodes[:2], 1):
        desk.at(ms(moment), finished(held[node], on=node))
        assert not started(desk.new_orders)
    desk.at(ms(3), finished(held["i2"], on="i2"))
    assert started(desk.new_orders)[-1] == Some(TaskOrder, stage="detect", config=Config(1, 1, 1))


def test_rounds_and_their_interval_can_be_set(open_desk: Callable[..., Desk]) -> None:
    once = SchedulerSettings(recheck_rounds=1, recheck_interval_us=ms(2), prewarm=False)
    desk = open_desk(settings=once)
    occupied(desk).at(ms(0), URGENT).wake()
    assert desk.now_us == ms(2)
    assert desk.new_orders == [start("t2", "scan/detect", "r1", config=(1, 1, 1))]


def test_task_whose_minimum_config_fits_nowhere_waits_for_a_release(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r0", "thumb"), arrived("r1"))
    desk.wake().wake().wake()
    assert (desk.now_us, desk.new_orders) == (ms(15), [])
    assert desk.next_wake is None  # only a release can help now
    desk.at(ms(40), finished("t1"))
    assert desk.new_orders[-1] == start("t2", "scan/detect", "r1")


def test_rounds_without_any_node_do_not_cost_a_job_its_plan(desk: Desk) -> None:
    desk.at(ms(0), URGENT).wake().wake().wake()
    assert desk.next_wake is None
    desk.at(ms(20), joined("i0"))
    assert desk.orders == [start("t1", "scan/detect", "r1", config=(1, 2, 2))]


def test_a_model_larger_than_any_slice_waits_for_a_larger_one(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", memory_mb=399), arrived("r1")).wake().wake().wake()
    assert (desk.orders, desk.next_wake) == ([], None)
    desk.at(ms(40), joined("i1", memory_mb=400))
    assert desk.orders == [start("t1", "scan/detect", "r1", on="i1")]


def test_a_config_larger_than_any_node_waits_for_a_larger_one(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=0), arrived("r1")).wake().wake().wake()
    assert (desk.orders, desk.next_wake) == ([], None)
    desk.at(ms(40), joined("i1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", on="i1")]


def test_the_rounds_start_anew_after_a_success(desk: Desk) -> None:
    occupied(desk).at(ms(0), URGENT).wake().wake().wake()
    assert desk.new_orders == [start("t2", "scan/detect", "r1", config=(1, 1, 1))]
    desk.at(ms(16), finished("t2")).at(ms(17), arrived("r2", slo_us=ms(99)))
    desk.wake().wake()
    assert (desk.now_us, desk.new_orders) == (ms(27), [])
    desk.wake()
    assert desk.new_orders == [start("t3", "scan/detect", "r2", config=(1, 1, 1))]


def test_the_rounds_of_a_cancelled_request_are_not_those_of_the_next(desk: Desk) -> None:
    occupied(desk).at(ms(0), URGENT).wake().wake().at(ms(12), cancelled("r1"))
    desk.at(ms(20), arrived("r2", slo_us=ms(99)))
    assert desk.new_orders == []  # its first try, not its third
    desk.at(ms(21), finished("t1"))
    assert desk.new_orders[-1] == start("t2", "scan/detect", "r2", config=(1, 2, 2))


def test_a_request_does_not_wait_for_the_alarm_of_a_cancelled_one(desk: Desk) -> None:
    occupied(desk).at(ms(0), URGENT).at(ms(1), cancelled("r1")).at(ms(2), arrived("r2"))
    assert desk.new_orders == [start("t2", "scan/detect", "r2")]


class Hesitant:
    """ESG, except that it holds a queue when it sees it for the second time."""

    search_steps_per_ms = 1
    prewarm_all_stages = False

    def __init__(self, catalog: Catalog) -> None:
        self._esg = esg_policy(catalog)

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        return self._esg.order(queues, now_us)

    def decide(self, view: QueueView) -> Offer | Hold:
        assert view.queue.visit < 100, "visited over and over"
        if view.stage.name == "detect" and ms(5) <= view.now_us < ms(8):
            return Hold(ms(8))
        return self._esg.decide(view)

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        return self._esg.place(view, offer, nodes)


def test_a_policy_may_hold_a_queue_that_is_on_the_recheck_list(
    open_desk: Callable[..., Desk],
) -> None:
    policy: Callable[[Catalog], Policy] = Hesitant
    desk = occupied(open_desk(policy=policy)).at(ms(0), URGENT).wake()
    assert (desk.now_us, desk.new_orders, desk.next_wake) == (ms(5), [], ms(8))
    desk.at(ms(6), finished("t1"))
    assert desk.new_orders == [answer("r0"), discard("i0", "r0")]  # it is still held
    desk.wake()
    assert desk.new_orders == [start("t2", "scan/detect", "r1", config=(1, 2, 2))]


class Choosy:
    """ESG, except that for 100 ms no place is good enough."""

    prewarm_all_stages = False

    def __init__(self, catalog: Catalog) -> None:
        self._esg = esg_policy(catalog)
        self.search_steps_per_ms = self._esg.search_steps_per_ms
        self.order = self._esg.order
        self.decide = self._esg.decide

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        return None if view.now_us < ms(100) else self._esg.place(view, offer, nodes)


def test_a_policy_that_waits_for_something_better_is_asked_again(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(policy=Choosy).at(ms(0), joined("i0"), arrived("r1"))
    while desk.now_us < ms(100):
        desk.wake()
    assert desk.orders == [start("t1", "scan/detect", "r1")]


def test_policy_is_not_asked_again_where_there_is_no_room(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(policy=Choosy).at(ms(0), joined("i0", memory_mb=300), arrived("r1"))
    while desk.next_wake is not None:
        desk.wake()
    assert desk.now_us == ms(15)
