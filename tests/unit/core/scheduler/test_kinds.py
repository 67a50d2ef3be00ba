"""Slices of different kinds: what is refused, and plans that follow the nodes that there are.

See `small_catalog.MIXED`: `depth` runs on no usual slice, `label` on no large one.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.commands import RefusalKind, RefuseRequest
from esg.core.messages.events import (
    Event,
    InvokerJoined,
    InvokerLeaving,
    InvokerReported,
    RunningTask,
    SliceInventory,
)
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy_maker
from esg.core.search import ENGINES
from esg.units import ms
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    discard,
    finished,
    lost,
    refuse,
    registered,
    start,
    started,
    stop,
)
from tests.support.small_catalog import CPU, LARGE, MIXED, with_slices

ON_USUAL = with_slices(MIXED, [USUAL])


def joined(invoker: str, *kinds: str, resident: Sequence[str] = ()) -> Event:
    slices = [SliceInventory(memory_mb=1000, kind=kind, resident=tuple(resident)) for kind in kinds]
    return InvokerJoined(invoker=invoker, vcpus=4, slices=tuple(slices))


@pytest.fixture
def desk() -> Desk:
    return Desk(catalog=MIXED)


def planned(desk: Desk, function: str) -> tuple[str, ...]:
    """The kinds of slices that a function is planned on."""
    return desk.scheduler.planned.functions[function].profile.kinds


def test_request_is_refused_whose_function_no_slice_can_run_and_it_says_why(desk: Desk) -> None:
    desk.at(0, joined("i0", USUAL), arrived("r1", "scene"), arrived("r2", "scan"))
    told, order = desk.new_orders
    assert isinstance(told, RefuseRequest)
    assert (told.request, told.kind) == ("r1", RefusalKind.IMPOSSIBLE)
    assert told.reason == (
        "scene: no profile says what depth takes here: there are only slices of 1g.10gb; "
        "measure it there with esg profile"
    )
    assert order == start("t1", "scan/detect", "r2")
    desk.at(ms(100), finished("t1"))
    desk.close()


def test_request_is_taken_as_soon_as_there_are_slices_for_it(desk: Desk) -> None:
    desk.at(0, joined("i0", USUAL), arrived("r1", "map"))
    assert desk.new_orders == [refuse("r1")]
    desk.at(1, joined("i1", LARGE), arrived("r2", "map"))
    assert desk.new_orders == [
        start("t1", "map/depth", "r2", on="i1", config=Config(1, 2, 1, LARGE))
    ]
    desk.at(ms(30), finished("t1", "i1"))
    assert desk.new_orders == [answer("r2"), discard("i1", "r2")]
    desk.at(ms(31), lost("i1"), arrived("r3", "map"))
    assert desk.new_orders == [refuse("r3")]
    desk.close()


def test_request_is_refused_for_slices_that_are_too_slow_for_it(desk: Desk) -> None:
    desk.at(0, joined("i0", CPU), arrived("r1", "thumb", slo_us=ms(29)))
    assert desk.new_orders == [
        refuse(
            "r1", reason="an SLO of 29 ms cannot be met: thumb takes 30 ms with the fastest configs"
        )
    ]
    assert desk.at(1, arrived("r2", "thumb")).new_orders == [
        start("t1", "thumb/resize", "r2", config=Config(1, 1, 1, CPU))
    ]
    desk.at(ms(31), finished("t1"))
    desk.close()


def test_plans_are_made_anew_when_the_first_node_with_other_slices_joins(desk: Desk) -> None:
    desk.at(0, joined("i0", USUAL))
    assert planned(desk, "detect") == (USUAL,)
    desk.at(1, joined("i1", LARGE, CPU))
    assert planned(desk, "detect") == (USUAL, LARGE)
    desk.at(2, arrived("r1", slo_us=ms(50)))  # only a large one is as fast
    assert desk.new_orders == [
        start("t1", "scan/detect", "r1", on="i1", config=Config(1, 1, 1, LARGE))
    ]
    desk.at(ms(40), finished("t1", "i1"))
    desk.close()


def test_plans_are_made_anew_when_the_last_node_with_such_slices_is_lost(desk: Desk) -> None:
    desk.at(0, joined("i0", USUAL, USUAL), joined("i1", LARGE), joined("i2", LARGE))
    desk.at(1, lost("i1"))
    assert planned(desk, "detect") == (USUAL, LARGE)
    desk.at(2, arrived("r1", slo_us=ms(60)))
    assert [order.invoker for order in started(desk.new_orders)] == ["i2"]
    desk.at(3, lost("i2"))
    assert planned(desk, "detect") == (USUAL,)
    assert planned(desk, "depth") == (CPU, LARGE)  # on none that there is: it waits
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]
    desk.at(ms(100), finished("t2"))
    desk.close()


def test_node_that_comes_back_with_other_slices_is_another_one(desk: Desk) -> None:
    desk.at(0, joined("i0", USUAL), arrived("r1", "scan"))
    desk.at(1, joined("i0", LARGE))
    assert desk.new_orders == [start("t2", "scan/detect", "r1", config=Config(1, 1, 1, LARGE))]
    desk.at(ms(50), finished("t2"))
    desk.close()


def test_nothing_is_planned_on_slices_that_the_catalog_does_not_know(desk: Desk) -> None:
    desk.at(0, joined("i0", "of-somebody"), arrived("r1", "thumb"))
    (told,) = desk.new_orders
    assert isinstance(told, RefuseRequest)
    assert "there are only slices of of-somebody" in told.reason
    desk.at(1, joined("i1", USUAL), arrived("r2", "thumb"))
    assert desk.new_orders == [start("t1", "thumb/resize", "r2", on="i1")]
    desk.at(ms(10), finished("t1", "i1"))
    desk.close()


def test_before_there_are_nodes_the_cluster_of_the_catalog_says_what_there_will_be() -> None:
    desk = Desk(catalog=ON_USUAL)
    desk.at(0, arrived("r1", "map"), arrived("r2", "scan"))
    assert desk.new_orders == [refuse("r1")]
    desk.at(1, joined("i0", LARGE))
    assert desk.new_orders == [start("t1", "scan/detect", "r2", config=Config(1, 1, 1, LARGE))]
    desk.at(ms(50), finished("t1"))
    desk.close()


def test_slices_of_a_node_that_leaves_are_not_reckoned_with(desk: Desk) -> None:
    desk.at(0, joined("i0", USUAL), joined("i1", LARGE), InvokerLeaving(invoker="i1"))
    desk.at(1, arrived("r1", "map"))
    assert desk.new_orders == [refuse("r1")]
    desk.close()


def test_job_waits_for_slices_that_can_run_it_although_others_are_free(desk: Desk) -> None:
    desk.at(0, joined("i0", USUAL, USUAL, LARGE))
    desk.at(1, arrived("r1", "map"), arrived("r2", "map"))
    assert desk.new_orders == [
        start("t1", "map/depth", "r1", config=Config(1, 2, 1, LARGE), slices=(2,))
    ]
    desk.at(ms(30), finished("t1"))
    assert start("t2", "map/depth", "r2", config=Config(1, 2, 1, LARGE)) in desk.new_orders
    desk.at(ms(60), finished("t2"))
    desk.close()


def test_stray_task_on_slices_of_another_kind_keeps_them_until_it_has_stopped(desk: Desk) -> None:
    desk.at(0, joined("i0", LARGE))
    running = (RunningTask(task="t9", vcpus=1, slices=(0,)),)
    slices = (SliceInventory(memory_mb=1000, kind=LARGE),)
    desk.at(1, InvokerReported(invoker="i0", slices=slices, running=running, latest_task=9))
    assert desk.new_orders == [stop("t9")]
    assert desk.scheduler.state.nodes["i0"].vgpus_free == 0
    desk.close()


def test_application_whose_deadline_no_slice_here_can_keep_is_not_registered(desk: Desk) -> None:
    desk.at(0, joined("i0", CPU), registered("small", "resize", slo_us=ms(20)))
    assert "cannot be met" in desk.new_orders[0].reason  # type: ignore[union-attr]
    desk.at(1, joined("i1", USUAL), registered("small", "resize", slo_us=ms(20)))
    assert desk.new_orders == []
    desk.close()


SCAN = replace(MIXED, applications={"scan": MIXED.applications["scan"]})
LEARNT = {"scan": {"detect": Config(1, 1, 1, LARGE)}}


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *(("esg", engine) for engine in ENGINES),
        *((name, "frontier") for name in ("apex", "infless", "fast-gshare", "orion", "aquatope")),
    ],
)
def test_every_policy_plans_with_the_slices_that_there_are(name: str, engine: str) -> None:
    """Its desk tells the story again from snapshots in between, with a policy that is made anew."""
    maker = policy_maker(name, PolicySettings(engine=engine, trained=LEARNT))
    desk = Desk(catalog=SCAN, policy=maker)
    warm = ("detect",)
    desk.at(0, joined("i0", USUAL, resident=warm), joined("i1", LARGE, resident=warm))
    served(desk, "r1")
    desk.at(desk.now_us + 1, lost("i1"))
    assert served(desk, "r2").kind == USUAL
    desk.at(desk.now_us + 1, joined("i2", LARGE, resident=warm), lost("i0"))
    assert served(desk, "r3").kind == LARGE
    desk.close()


def served(desk: Desk, request: str) -> Config:
    """A request comes, waits for as long as the policy likes, and is answered; says on what it was
    run."""
    desk.at(desk.now_us + 1, arrived(request))
    while not started(desk.new_orders):
        desk.wake()
    (order,) = started(desk.new_orders)
    desk.at(desk.now_us + ms(40), finished(order.task, order.invoker))
    assert answer(request) in desk.new_orders
    return order.config
