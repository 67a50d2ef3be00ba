"""Invokers that are lost, come back and report; news that come late or twice change nothing."""

from esg.core.messages.events import InvokerLeaving, RunningTask, Woke
from esg.core.policies.placement import home
from esg.units import ms, seconds
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    drop,
    failed,
    finished,
    gone,
    job,
    joined,
    lost,
    publish,
    ready,
    reported,
    start,
    started,
    stop,
    warm,
)

# Invokers that are lost.


def test_the_jobs_of_a_lost_invoker_go_back_in_their_order(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), *(arrived(f"r{n}", "thumb") for n in (1, 2, 3)))
    desk.at(ms(5), lost("i0"))
    desk.at(ms(6), joined("i0"))
    assert desk.new_orders == [
        start("t3", "thumb/resize", "r1"),
        start("t4", "thumb/resize", "r2"),
    ]


def test_task_lost_with_its_invoker_is_not_counted_as_failed(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1"))
    for n in range(5):
        desk.at(ms(n), joined("i0")).at(ms(n), lost("i0"))
    desk.at(ms(6), joined("i0"))
    assert desk.new_orders == [start("t6", "scan/detect", "r1")]


def test_outputs_that_were_not_published_are_made_again(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "photo"))
    desk.at(ms(10), finished("t1")).at(ms(110), finished("t2"))  # resize and detect
    desk.at(ms(111), lost("i0")).at(ms(112), joined("i1"))
    assert desk.new_orders == [start("t4", "photo/resize", "r1", on="i1")]


def test_outputs_that_were_published_are_not_made_again(desk: Desk) -> None:
    near = home("photo/resize", ("i0", "i1"))
    far = "i1" if near == "i0" else "i0"
    desk.at(ms(0), joined(near, memory_mb=300), joined(far), arrived("r1", "photo"))
    desk.at(ms(10), finished("t1", on=near)).at(ms(20), lost(near), lost(far))
    desk.at(ms(30), joined(far))
    assert desk.new_orders == [start("t3", "photo/detect", job("r1", resize=""), on=far)]


def test_results_that_are_out_are_not_made_again(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(100), finished("t1")).at(ms(101), lost("i0"))
    assert desk.new_orders == []


def test_a_lost_branch_does_not_take_the_other_one_with_it(desk: Desk) -> None:
    near = home("scene/resize", ("i0", "i1"))
    far = "i1" if near == "i0" else "i0"
    desk.at(ms(0), joined(near, vgpus=1), joined(far, vgpus=1), arrived("r1", "scene"))
    desk.at(ms(10), finished("t1", on=near))
    assert desk.new_orders == [
        start("t2", "scene/depth", job("r1", resize=near), on=near, config=(1, 4, 1)),
        publish("r1/resize", on=near),
        start("t3", "scene/detect", job("r1", resize=near), on=far),
    ]
    desk.at(ms(20), lost(far))
    assert desk.new_orders == []  # near is full
    desk.at(ms(60), finished("t2", on=near))
    assert desk.new_orders == [
        drop("resize", on=near),
        start("t4", "scene/detect", job("r1", resize=near), on=near),
    ]


def test_a_cancelled_request_is_not_brought_back_by_a_loss(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(1), cancelled("r1")).at(ms(2), lost("i0"))
    desk.at(ms(3), joined("i0"))
    assert desk.new_orders == []


# News that are late, or said twice.


def test_late_and_repeated_news_of_a_task_change_nothing(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), joined("i1"), arrived("r1", "photo"))
    near = started(desk.new_orders)[0].invoker
    far = "i1" if near == "i0" else "i0"
    desk.at(ms(5), finished("t1", on=far), failed("t1", on=far), finished("t7", on=near))
    assert desk.new_orders == []
    desk.at(ms(10), finished("t1", on=near))
    desk.at(ms(11), finished("t1", on=near), failed("t1", on=near, missing=("r1/resize",)))
    assert desk.new_orders == []


def test_a_task_given_up_with_its_invoker_is_not_taken_back(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(1), lost("i0")).at(ms(2), joined("i0"))
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]
    desk.at(ms(3), finished("t1"))
    assert desk.new_orders == []


def test_an_invoker_lost_twice_or_unheard_of_is_no_matter(desk: Desk) -> None:
    desk.at(ms(0), joined("i0")).at(ms(1), lost("i0"), lost("i0"), lost("i9"))
    desk.at(ms(2), reported("i0", latest_task=0))
    assert desk.orders == []


# Invokers that come back.


def test_task_that_still_runs_on_an_invoker_that_joins_again_goes_on(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(10), joined("i0", running=("t1",)))
    assert desk.new_orders == []
    desk.at(ms(100), finished("t1"))
    assert desk.new_orders == [answer("r1"), discard("i0", "r1")]


def test_task_that_does_not_run_on_an_invoker_that_joins_again_is_started_again(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(10), joined("i0"))
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]


def test_tasks_that_nobody_knows_are_stopped(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    desk.at(ms(10), joined("i0", running=("t1", "t77")))
    assert desk.new_orders == [stop("t77")]


def test_a_task_that_nobody_knows_keeps_what_it_holds_until_it_has_stopped(desk: Desk) -> None:
    stray = RunningTask(task="t9", vcpus=4, slices=(1,))
    desk.at(ms(0), joined("i0", running=(stray,)), arrived("r1"))
    assert desk.orders == [stop("t9")]
    desk.at(ms(1), failed("t9", reason="stopped"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1")]


def test_a_node_of_another_size_is_another_node(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    desk.at(ms(10), joined("i0", vgpus=1))
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]
    desk.at(ms(20), joined("i0", vgpus=3, running=("t2",)))
    assert desk.new_orders[0] == stop("t2")


def test_a_number_that_a_node_has_heard_is_not_used_again(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", latest_task=41), arrived("r1"))
    assert desk.orders == [start("t42", "scan/detect", "r1")]


def test_models_found_loaded_count_as_warm_and_models_gone_do_not(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=3, resident={0: ("detect",)}))
    desk.at(ms(1), joined("i0", vgpus=3, resident={2: ("detect", "poetry")}))
    desk.at(ms(2), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", slices=(2,))]


def test_a_model_that_was_being_loaded_when_a_node_restarted_is_not_waited_for(
    foreseeing_desk: Desk,
) -> None:
    desk = foreseeing_desk
    node = joined("i0", vgpus=1, memory_mb=600)
    desk.at(ms(0), node)
    for call, second in enumerate((0, 1000), 1):
        desk.at(seconds(second), arrived(f"r{call}", "map"))
        desk.at(seconds(second + 1), finished(f"t{call}")).at(seconds(second + 900), gone("depth"))
    desk.wake()
    assert desk.new_orders == [warm("depth")]
    # the node starts anew and knows nothing of that order
    desk.at(desk.now_us + ms(1), node)
    desk.at(desk.now_us + ms(1), arrived("r3", "scan"))
    assert desk.new_orders == [start("t3", "scan/detect", "r3")]


def test_a_model_that_a_running_task_waits_for_is_still_being_loaded(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, memory_mb=600), arrived("r1"))
    desk.at(ms(1), joined("i0", vgpus=1, memory_mb=600, running=("t1",)))
    desk.at(ms(200), ready("detect")).at(ms(300), finished("t1"))
    desk.at(ms(301), arrived("r2", "map"))
    assert desk.new_orders == [drop("detect"), start("t2", "map/depth", "r2", config=(1, 4, 1))]


# Reports.


def test_a_report_is_not_held_against_orders_that_were_on_their_way(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"), arrived("r2", "thumb"))
    desk.at(ms(1), reported("i0", running=("t1",), latest_task=1))
    assert desk.new_orders == []
    desk.at(ms(2), reported("i0", running=("t1",), latest_task=2))
    assert desk.new_orders == [start("t3", "thumb/resize", "r2")]


def test_a_report_of_an_unknown_task_has_it_stopped(desk: Desk) -> None:
    desk.at(ms(0), joined("i0")).at(ms(1), reported("i0", running=("t5",), latest_task=5))
    assert desk.orders == [stop("t5")]


def test_a_report_corrects_what_is_thought_to_be_loaded(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident={0: ("detect",)}))
    desk.at(ms(1), reported("i0", resident={1: ("detect",)}, latest_task=0))
    desk.at(ms(2), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", slices=(1,))]


def test_a_model_that_failed_to_load_is_given_up_with_its_task(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, memory_mb=600), arrived("r1", slo_us=seconds(2)))
    desk.at(ms(5), gone("detect"), failed("t1", reason="detect could not be loaded"))
    assert desk.new_orders == []
    desk.at(ms(205), Woke())  # loading it takes 200 ms, and so does leaving it alone
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]
    desk.at(ms(405), ready("detect")).at(ms(505), finished("t2"))
    desk.at(ms(506), arrived("r2", "map"))
    assert desk.new_orders == [drop("detect"), start("t3", "map/depth", "r2", config=(1, 4, 1))]


def test_a_report_that_shows_room_wakes_those_who_wait_for_it(foreseeing_desk: Desk) -> None:
    """A model that is being loaded cannot make room; the news that it is there got lost."""
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0", vgpus=1, memory_mb=600))
    for call, second in enumerate((0, 1000), 1):
        desk.at(seconds(second), arrived(f"r{call}", "map"))
        desk.at(seconds(second + 1), finished(f"t{call}")).at(seconds(second + 900), gone("depth"))
    desk.wake()
    assert desk.new_orders == [warm("depth")]
    desk.at(desk.now_us + ms(1), arrived("r3", "scan")).wake().wake().wake()
    assert desk.new_orders == []
    resident = {0: ("depth",)}
    report = reported("i0", vgpus=1, memory_mb=600, resident=resident, latest_task=2)
    desk.at(desk.now_us + ms(1), report)
    assert desk.new_orders == [drop("depth"), start("t3", "scan/detect", "r3")]


def test_a_stray_has_its_number_to_itself_even_if_that_was_still_to_come(desk: Desk) -> None:
    next_one = RunningTask(task="t1", vcpus=1, slices=(0,))
    desk.at(ms(0), joined("i0", running=(next_one,)), arrived("r1"))
    assert desk.orders == [stop("t1"), start("t2", "scan/detect", "r1")]
    desk.at(ms(1), failed("t1"))
    assert list(desk.scheduler.state.tasks) == ["t2"]


def test_a_stray_that_claims_a_slice_twice_or_one_that_is_not_there_is_not_booked(
    desk: Desk,
) -> None:
    twice = RunningTask(task="t7", vcpus=1, slices=(0, 0))
    absent = RunningTask(task="t8", vcpus=1, slices=(-1,))
    desk.at(ms(0), joined("i0", running=(twice, absent)), ready("detect", slice=-1))
    assert desk.orders == [stop("t7"), stop("t8")]


def test_outputs_kept_of_an_ended_request_are_discarded_when_the_node_joins(
    desk: Desk,
) -> None:
    """The order to do so may have been lost, with the connection or with the controller."""
    desk.at(ms(0), joined("i0"), arrived("r1", "thumb"))
    desk.at(ms(1), joined("i0", running=("t1",), latest_task=1, kept=("r0", "r1")))
    assert desk.new_orders == [discard("i0", "r0")]


def test_outputs_that_tasks_wait_for_are_published_again_by_a_node_that_comes_back(
    desk: Desk,
) -> None:
    """The order to publish it may have been lost, with the connection or with the controller."""
    desk.at(ms(0), joined("i0"), arrived("r1", "photo"))
    desk.at(ms(1), InvokerLeaving(invoker="i0"), joined("i1")).at(ms(10), finished("t1"))
    assert publish("r1/resize") in desk.new_orders
    desk.at(ms(20), joined("i0", latest_task=1, kept=("r1",)))
    assert desk.new_orders == [publish("r1/resize")]


def test_outputs_that_tasks_will_wait_for_are_published_again_when_they_do(desk: Desk) -> None:
    """Those who waited for it are gone, so it cannot be said again as the node comes back."""
    near = home("photo/resize", ("i0", "i1"))
    far = "i1" if near == "i0" else "i0"
    desk.at(ms(0), joined(near, memory_mb=300), joined(far), arrived("r1", "photo"))
    desk.at(ms(10), finished("t1", on=near))
    assert publish("r1/resize", on=near) in desk.new_orders
    desk.at(ms(15), lost(far)).at(ms(20), joined(near, memory_mb=300, latest_task=1, kept=("r1",)))
    assert publish("r1/resize", on=near) not in desk.new_orders
    desk.at(ms(30), joined(far))
    assert desk.new_orders == [
        publish("r1/resize", on=near),
        start("t3", "photo/detect", job("r1", resize=near), on=far),
    ]


def test_outputs_kept_of_a_request_under_way_are_discarded_at_its_end(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "thumb"))
    desk.at(ms(1), joined("i1", kept=("r1",)))
    desk.at(ms(10), finished("t1"))
    assert desk.new_orders == [answer("r1"), discard("i1", "r1"), discard("i0", "r1")]


# Invokers that leave.


def test_a_leaving_invoker_gets_no_new_work_and_finishes_what_it_has(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "thumb"))
    desk.at(ms(1), InvokerLeaving(invoker="i0"), arrived("r2", "thumb"))
    assert desk.new_orders == []
    desk.at(ms(2), joined("i1"))
    assert desk.new_orders == [start("t2", "thumb/resize", "r2", on="i1")]
    desk.at(ms(10), finished("t1"))
    assert desk.new_orders == [answer("r1"), discard("i0", "r1")]


def test_outputs_that_a_leaving_invoker_keeps_are_published_for_the_next(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "photo"))
    desk.at(ms(1), InvokerLeaving(invoker="i0"), joined("i1")).at(ms(10), finished("t1"))
    assert desk.new_orders == [
        publish("r1/resize"),
        start("t2", "photo/detect", job("r1", resize="i0"), on="i1"),
    ]


def test_an_invoker_that_joins_again_is_not_leaving(desk: Desk) -> None:
    desk.at(ms(0), joined("i0")).at(ms(1), InvokerLeaving(invoker="i0"))
    desk.at(ms(2), lost("i0")).at(ms(3), joined("i0"), arrived("r1", "thumb"))
    assert desk.new_orders == [start("t1", "thumb/resize", "r1")]
