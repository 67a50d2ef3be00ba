"""ESG_Dispatch: home or where the inputs are, else where it is warm, else where there is room.

Which node is the home of a queue is as good as random, so the stories look it up.
"""

import pytest

from esg.core.messages.commands import PublishData, StartTask
from esg.core.policies.interface import QueueView
from esg.core.policies.placement import home, ranked_homes
from esg.core.state.state import Job, Queue, Request, StageRun, State
from esg.units import ms
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    drop,
    finished,
    job,
    joined,
    lost,
    publish,
    start,
    started,
)
from tests.support.small_catalog import SMALL

NODES = ("i0", "i1", "i2")
HOME, SECOND, THIRD = ranked_homes("scan/detect", NODES)


def three_nodes(desk: Desk, **changed: dict[str, int]) -> Desk:
    """Three equal nodes, except for those that are changed."""
    return desk.at(ms(0), *(joined(node, **changed.get(node, {})) for node in NODES))


# First stages.


def test_a_first_stage_goes_home(desk: Desk) -> None:
    three_nodes(desk, **{SECOND: {"vcpus": 16, "vgpus": 7}})
    desk.at(ms(1), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", on=HOME)]


def test_task_goes_home_even_if_its_model_is_warm_elsewhere(desk: Desk) -> None:
    three_nodes(desk).at(ms(0), joined(SECOND, resident={0: ("detect",)}))
    desk.at(ms(1), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", on=HOME)]


def test_the_home_stays_when_other_nodes_come_and_go() -> None:
    nodes = tuple(f"i{n}" for n in range(12))
    queues = [f"app{n}/stage" for n in range(200)]
    for gone in nodes:
        for queue in queues:
            before, after = home(queue, nodes), home(queue, tuple(n for n in nodes if n != gone))
            assert after == before or before == gone


def test_homes_are_spread_over_the_nodes() -> None:
    nodes = tuple(f"i{n}" for n in range(4))
    homes = [home(f"app{n}/stage", nodes) for n in range(400)]
    assert all(70 < homes.count(node) < 130 for node in nodes)


def test_a_queue_comes_back_to_its_home_when_that_comes_back(desk: Desk) -> None:
    three_nodes(desk).at(ms(1), arrived("r1"))
    desk.at(ms(100), finished("t1", on=HOME)).at(ms(101), lost(HOME))
    desk.at(ms(102), arrived("r2")).at(ms(103), joined(HOME)).at(ms(104), arrived("r3"))
    assert [order for order in desk.orders if isinstance(order, StartTask)] == [
        start("t1", "scan/detect", "r1", on=HOME),
        start("t2", "scan/detect", "r2", on=SECOND),
        start("t3", "scan/detect", "r3", on=HOME),
    ]


# Elsewhere.


def test_warm_node_comes_before_a_roomier_cold_one_if_home_has_no_room(desk: Desk) -> None:
    three_nodes(desk, **{HOME: {"vcpus": 0}, SECOND: {"vcpus": 16, "vgpus": 7}})
    desk.at(ms(0), joined(THIRD, resident={1: ("detect",)})).at(ms(1), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", on=THIRD, slices=(1,))]


def test_of_warm_nodes_the_roomiest_is_taken(desk: Desk) -> None:
    three_nodes(desk, **{HOME: {"vcpus": 0}})
    desk.at(ms(0), joined(SECOND, vgpus=3, resident={0: ("detect",)}))
    desk.at(ms(0), joined(THIRD, vgpus=4, resident={3: ("detect",)})).at(ms(1), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", on=THIRD, slices=(3,))]


def test_half_warm_is_not_warm(desk: Desk) -> None:
    three_nodes(desk, **{HOME: {"vcpus": 0}, SECOND: {"vgpus": 3}})
    desk.at(ms(0), joined(THIRD, resident={0: ("detect",)}))
    desk.at(ms(1), arrived("r1", slo_us=ms(99)))  # needs two slices
    assert desk.orders == [start("t1", "scan/detect", "r1", on=SECOND, config=(1, 2, 2))]


@pytest.mark.parametrize(
    ("second", "third", "expected"),
    [
        ({"vgpus": 3}, {"vgpus": 2, "vcpus": 16}, SECOND),
        ({"vcpus": 4}, {"vcpus": 5}, THIRD),
        ({}, {}, min(SECOND, THIRD)),
    ],
    ids=["most slices", "then most vCPUs", "then the first by name"],
)
def test_of_cold_nodes_the_roomiest_is_taken(
    desk: Desk, second: dict[str, int], third: dict[str, int], expected: str
) -> None:
    three_nodes(desk, **{HOME: {"vcpus": 0}, SECOND: second, THIRD: third})
    desk.at(ms(1), arrived("r1"))
    assert desk.orders == [start("t1", "scan/detect", "r1", on=expected)]


def test_the_cheaper_plan_far_away_comes_before_the_dearer_one_at_home(desk: Desk) -> None:
    first, second = ranked_homes("map/depth", ("i0", "i1"))
    desk.at(ms(0), joined(first, vcpus=2), joined(second, vcpus=4), arrived("r1", "map"))
    assert desk.orders == [start("t1", "map/depth", "r1", on=second, config=(1, 4, 1))]


# Slices.


def test_warm_slices_are_taken_first_then_loading_ones_then_those_with_most_room(
    desk: Desk,
) -> None:
    resident = {1: ("label",), 2: ("label", "resize"), 3: ("detect",)}
    desk.at(ms(0), joined("i0", vcpus=8, vgpus=4, resident=resident))
    for n in range(4):
        desk.at(ms(1), arrived(f"r{n}", slo_us=ms(200)))
    assert [order.slices for order in started(desk.orders)] == [
        (3,),
        (0,),
        (1,),
        (2,),
    ]


def test_a_slice_runs_one_task_at_a_time(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, resident={0: ("detect", "resize")}))
    desk.at(ms(1), arrived("r1"), arrived("r2", "thumb"))
    assert desk.orders == [start("t1", "scan/detect", "r1")]


# Data.


def second_stage_of(desk: Desk, **changed: dict[str, int]) -> str:
    """Run the first stage of r1 on its home, which is returned."""
    near = home("photo/resize", NODES)
    three_nodes(desk, **changed).at(ms(1), arrived("r1", "photo"))
    assert desk.new_orders == [start("t1", "photo/resize", "r1", on=near)]
    return near


def test_later_stages_follow_their_inputs(desk: Desk) -> None:
    near = second_stage_of(desk)
    desk.at(ms(11), finished("t1", on=near))
    assert desk.new_orders == [start("t2", "photo/detect", job("r1", resize=near), on=near)]
    desk.at(ms(111), finished("t2", on=near))
    assert desk.new_orders == [start("t3", "photo/label", job("r1", detect=near), on=near)]
    desk.at(ms(131), finished("t3", on=near))
    assert desk.new_orders == [answer("r1"), discard(near, "r1")]
    assert not any(isinstance(order, PublishData) for order in desk.orders)


def test_for_a_consumer_elsewhere_the_output_is_published_first(desk: Desk) -> None:
    near = home("photo/resize", NODES)
    others = {node: {"memory_mb": 300} for node in NODES}  # not enough for detect
    far = next(node for node in NODES if node != near)
    others[far] = {"memory_mb": 400}
    assert second_stage_of(desk, **others) == near
    desk.at(ms(11), finished("t1", on=near))
    assert desk.new_orders == [
        publish("r1/resize", on=near),
        start("t2", "photo/detect", job("r1", resize=near), on=far),
    ]
    # label follows its input in turn, and at the end both nodes forget the request
    desk.at(ms(111), finished("t2", on=far))
    assert desk.new_orders == [start("t3", "photo/label", job("r1", detect=far), on=far)]
    desk.at(ms(131), finished("t3", on=far))
    assert desk.new_orders == [answer("r1"), discard(near, "r1"), discard(far, "r1")]


def test_an_output_with_two_remote_consumers_is_published_once(desk: Desk) -> None:
    near = home("scene/resize", ("i0", "i1"))
    far = "i1" if near == "i0" else "i0"
    desk.at(ms(0), joined(near, memory_mb=300), joined(far, vcpus=8), arrived("r1", "scene"))
    desk.at(ms(10), finished("t1", on=near))
    assert desk.new_orders == [
        publish("r1/resize", on=near),
        start("t2", "scene/depth", job("r1", resize=near), on=far, config=(1, 4, 1)),
        start("t3", "scene/detect", job("r1", resize=near), on=far),
    ]


def test_most_inputs_first_says_where_a_batch_would_like_to_run() -> None:
    scene = SMALL.applications["scene"]
    kept = {"r1": ("i0", "i1"), "r2": ("i1", "i1"), "r3": ("i2", "i2")}
    requests = {
        name: Request(
            name,
            "scene",
            number,
            arrived_us=0,
            deadline_us=ms(600),
            runs={"detect": StageRun(keeper=detect), "depth": StageRun(keeper=depth)},
        )
        for number, (name, (detect, depth)) in enumerate(kept.items())
    }
    jobs = [Job(request.name, request.number, 0, ms(600)) for request in requests.values()]
    queue = Queue("scene/label", "scene", "label", jobs)
    view = QueueView(0, scene, scene.stages["label"], queue, State(requests=requests))
    assert view.keepers(1) == ["i0", "i1"]
    assert view.keepers(2) == ["i1", "i0"]


def test_a_join_runs_where_one_of_its_inputs_is_and_gets_the_other_one(desk: Desk) -> None:
    near = home("scene/resize", ("i0", "i1"))
    far = "i1" if near == "i0" else "i0"
    # only detect fits near, only depth fits far
    desk.at(ms(0), joined(near, vgpus=1, memory_mb=450), joined(far, vgpus=1))
    desk.at(ms(1), arrived("r1", "scene"), arrived("r2", "scan")).at(ms(2), cancelled("r2"))
    desk.at(ms(11), finished("t1", on=near))
    assert desk.new_orders == [
        drop("resize", on=near),
        start("t3", "scene/detect", job("r1", resize=near), on=near),
    ]
    desk.at(ms(12), finished("t2", on=far))
    assert desk.new_orders == [
        discard(far, "r2", results=True),
        publish("r1/resize", on=near),
        start("t4", "scene/depth", job("r1", resize=near), on=far, config=(1, 4, 1)),
    ]
    desk.at(ms(62), finished("t4", on=far)).at(ms(111), finished("t3", on=near))
    assert desk.new_orders == [
        drop("detect", on=near),
        publish("r1/depth", on=far),
        start("t5", "scene/label", job("r1", detect=near, depth=far), on=near),
    ]
    assert desk.scheduler.state.tasks["t5"].remote == 1
