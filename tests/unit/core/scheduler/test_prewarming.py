"""Models where they will be needed: memory, and loading ahead of predicted calls.

`detect` takes 400 MB and 200 ms to load, `depth` 500 MB and 300 ms, `resize` and `label` 300 MB
and 40 ms each. Slices have 1000 MB unless a story says otherwise.
"""

from esg.core.estimation.ewma import observe_interval
from esg.core.messages.commands import DropInstance, StartTask, WarmInstance
from esg.core.messages.events import InvokerLeaving
from esg.core.state.state import IntervalEstimate
from esg.units import ms, seconds
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    discard,
    drop,
    failed,
    finished,
    gone,
    joined,
    ready,
    reported,
    start,
    warm,
)

# Making room.


def test_a_cold_start_on_a_full_slice_drops_the_model_that_is_soonest_loaded_again(
    desk: Desk,
) -> None:
    desk.at(ms(0), joined("i0", vgpus=1))
    desk.at(ms(1), arrived("r1", "thumb")).at(ms(11), finished("t1"))  # resize
    desk.at(ms(12), arrived("r2", "scan")).at(ms(112), finished("t2"))  # detect
    desk.at(ms(113), arrived("r3", "thumb")).at(ms(123), finished("t3"))  # resize again
    desk.at(ms(124), arrived("r4", "map"))
    assert desk.new_orders == [
        drop("resize"),
        start("t4", "map/depth", "r4", config=(1, 4, 1), slices=(0,)),
    ]


def test_models_are_dropped_until_the_new_one_fits(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, resident={0: ("label",)}))
    desk.at(ms(1), ready("detect")).at(ms(2), ready("resize")).at(ms(3), arrived("r1", "map"))
    assert desk.new_orders == [
        drop("label"),
        drop("detect"),
        start("t1", "map/depth", "r1", config=(1, 4, 1)),
    ]


def test_an_empty_slice_is_taken_before_anything_is_dropped(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident={0: ("label", "detect", "resize")}))
    desk.at(ms(1), arrived("r1", "map"))
    assert desk.orders == [start("t1", "map/depth", "r1", config=(1, 4, 1), slices=(1,))]


def test_a_report_does_not_make_idle_models_look_used(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1))
    desk.at(ms(1), arrived("r1", "thumb")).at(ms(11), finished("t1"))
    desk.at(ms(12), arrived("r2", "scan")).at(ms(112), finished("t2"))
    desk.at(ms(113), reported("i0", vgpus=1, resident={0: ("resize", "detect")}, latest_task=2))
    desk.at(ms(114), arrived("r3", "map"))
    assert desk.new_orders[0] == drop("resize")  # by age, and not by name


def test_a_model_that_is_being_loaded_cannot_make_room_until_it_is_ready(
    foreseeing_desk: Desk,
) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0", vgpus=1, memory_mb=600))
    for call, second in enumerate((0, 1000), 1):
        desk.at(seconds(second), arrived(f"r{call}", "map"))
        desk.at(seconds(second + 1), finished(f"t{call}")).at(seconds(second + 900), gone("depth"))
    desk.wake()
    assert desk.new_orders == [warm("depth")]
    desk.at(desk.now_us + ms(1), arrived("r3", "scan"))
    assert desk.new_orders == []
    desk.at(desk.now_us + ms(1), ready("depth"))
    assert desk.new_orders == [drop("depth"), start("t3", "scan/detect", "r3")]


def test_a_failed_cold_start_leaves_no_trace_in_memory(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, memory_mb=600), arrived("r1", "map"))
    desk.at(ms(50), failed("t1")).at(ms(50), failed("t2")).wake().at(ms(70), failed("t3"))
    desk.at(ms(80), arrived("r2", "scan"))  # 400 MB, of 600
    assert desk.new_orders == [start("t4", "scan/detect", "r2")]


def test_model_that_an_invoker_unloaded_is_not_warm_any_more(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident={1: ("detect",)})).at(ms(1), gone("detect", slice=1))
    desk.at(ms(2), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", slices=(0,))]


def test_a_model_that_turns_up_counts_as_warm(desk: Desk) -> None:
    desk.at(ms(0), joined("i0")).at(ms(1), ready("detect", slice=1)).at(ms(2), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", slices=(1,))]


def test_news_of_models_and_slices_that_nobody_knows_are_ignored(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"))
    desk.at(ms(1), ready("poetry"), ready("detect", slice=9), ready("detect", on="i9"))
    desk.at(ms(2), gone("poetry"), gone("detect", slice=9), gone("detect", on="i9"))
    desk.at(ms(3), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", slices=(0,))]


# Predicting calls.


def test_the_average_follows_the_newest_interval_by_a_quarter() -> None:
    arrivals = IntervalEstimate()
    seen = []
    for at_us in (1000, 2000, 3000, 3400, 3800):
        observe_interval(arrivals, at_us)
        seen.append(arrivals.average_us)
    assert seen == [0, 1000, 1000, 850, 737]


def test_a_rare_call_finds_its_model_loaded(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0")).at(ms(0), arrived("r1")).at(ms(300), finished("t1"))
    desk.at(seconds(900), gone("detect"))  # idle for too long
    desk.at(seconds(1000), arrived("r2")).at(seconds(1000.3), finished("t2"))
    desk.at(seconds(1900), gone("detect"))
    # the next call is expected at 2000 s; loading takes 200 ms
    assert desk.next_wake == seconds(2000) - ms(200)
    desk.wake()
    assert desk.new_orders == [warm("detect")]
    assert desk.next_wake is None
    desk.at(seconds(2000) - ms(1), ready("detect")).at(seconds(2000), arrived("r3"))
    assert desk.new_orders == [start("t3", "scan/detect", "r3", slices=(0,))]


def test_a_model_that_is_still_there_is_not_loaded_again(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(300), finished("t1"))
    desk.at(seconds(10), arrived("r2")).at(seconds(10.3), finished("t2"))
    assert desk.next_wake == seconds(20) - ms(200)
    desk.wake()
    assert desk.new_orders == []


def test_frequent_calls_get_as_many_instances_as_they_keep_busy(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0", vcpus=16, vgpus=7))
    # one call of 100 ms every 30 ms keeps 3.3 instances busy
    desk.at(ms(0), arrived("r1"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1", slices=(0,))]
    desk.at(ms(30), arrived("r2"))
    assert desk.new_orders == [
        warm("detect", slice=1),
        warm("detect", slice=2),
        warm("detect", slice=3),
        start("t2", "scan/detect", "r2", slices=(1,)),
    ]
    desk.at(ms(60), arrived("r3"))
    assert desk.new_orders == [start("t3", "scan/detect", "r3", slices=(2,))]


def test_prewarming_reckons_with_all_queues_of_a_function(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0", vcpus=16, vgpus=7))
    desk.at(ms(0), arrived("r1", "scan"), arrived("r2", "watch"))
    desk.at(ms(60), arrived("r3", "scan"))  # two instances, and two are there
    assert desk.new_orders == [start("t3", "scan/detect", "r3", slices=(2,))]
    desk.at(ms(60), arrived("r4", "watch"))  # two more, and a third was started meanwhile
    assert desk.new_orders == [
        warm("detect", slice=3),
        start("t4", "watch/detect", "r4", slices=(3,)),
    ]


def test_pre_warming_takes_free_memory_only(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0", vgpus=3, resident={1: ("depth", "label"), 2: ("depth",)}))
    desk.at(ms(0), arrived("r1")).at(ms(30), arrived("r2"))  # wants four, there is room for two
    assert [order for order in desk.new_orders if not isinstance(order, StartTask)] == [
        warm("detect", slice=2)
    ]
    assert not any(isinstance(order, DropInstance) for order in desk.orders)


def test_models_are_loaded_near_the_home_of_the_application(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0", vcpus=0), joined("i1", vcpus=0))
    desk.at(ms(0), arrived("r1")).at(ms(50), arrived("r2"))
    near = "i1"  # the home of scan/detect
    assert desk.orders == [warm("detect", near, 0), warm("detect", near, 1)]


def test_models_of_a_node_that_leaves_are_loaded_elsewhere(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(300), finished("t1"))
    desk.at(seconds(10), arrived("r2")).at(seconds(10.3), finished("t2"))
    desk.at(seconds(11), joined("i1"), InvokerLeaving(invoker="i0")).wake()
    assert desk.new_orders == [warm("detect", "i1")]


def test_jobs_that_come_back_are_no_new_calls(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk
    desk.at(ms(0), joined("i0", vcpus=16, vgpus=7), arrived("r1"))
    desk.at(ms(10), failed("t1"))
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]
    assert not any(isinstance(order, WarmInstance) for order in desk.orders)


def test_models_are_not_loaded_ahead_without_prewarming(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(100), finished("t1"))
    desk.at(ms(110), arrived("r2")).at(ms(210), finished("t2"))
    assert desk.orders == [
        start("t1", "scan/detect", "r1"),
        answer("r1"),
        discard("i0", "r1"),
        start("t2", "scan/detect", "r2"),
        answer("r2"),
        discard("i0", "r2"),
    ]
    assert desk.next_wake is None
