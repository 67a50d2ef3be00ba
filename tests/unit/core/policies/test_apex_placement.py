"""Apex chooses a node: by room, risk, transfers and models. A vCPU costs 1, a vGPU 10 pUSD/us."""

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.policies.interface import Offer, QueueView
from esg.units import ms
from tests.support.apex_cases import LEAN_AND_FAST, PAIRS, apex, held_until_ms, offered, warm
from tests.support.policy_cases import (
    by_name,
    chain,
    make_node,
    place,
    queue_view,
)


def test_slices_that_are_out_of_order_are_not_waited_for() -> None:
    pairs = chain(PAIRS)
    lost = queue_view(pairs, slo_ms=50)
    node = make_node("i0", vgpus=4)
    for index in range(3):
        node.set_usable(index, False)
    lost.state.nodes = by_name(node)
    assert held_until_ms(pairs, lost) is None


def test_vcpus_get_dearer_as_they_run_out() -> None:
    generous = chain({(1, 1, 1): 110, (1, 2, 1): 100, (1, 4, 1): 95})
    busy = queue_view(generous, slo_ms=300)
    busy.state.nodes = by_name(make_node("i0", vcpus=10, vgpus=2))
    assert offered(generous, busy).plans[0].config.vcpus == 2  # 12 x 100 beats 11 x 110
    busy.state.nodes = by_name(make_node("i0", vcpus=10, vgpus=2, free=(1, 1)))
    assert offered(generous, busy).plans[0].config.vcpus == 1  # a vCPU at 3: 13 x 110, 16 x 100
    assert offered(generous, busy, "scarcity").plans[0].config.vcpus == 2


def test_a_first_stage_goes_where_most_is_left_for_the_next() -> None:
    catalog = chain(LEAN_AND_FAST)
    roomy = warm("i1", vcpus=8)
    assert place(apex(catalog), queue_view(catalog), warm("i0"), roomy) == (Config(1, 1, 1), "i1")


def test_jobs_that_belong_together_go_where_there_is_room_for_all() -> None:
    side_by_side = {(1, 2, 1): 100, (2, 2, 2): 150}  # is cheaper
    catalog = chain(side_by_side, {(1, 1, 1): 10})
    pair = queue_view(catalog, waiting=2)
    small, large = warm("i0", vcpus=3), warm("i1", vcpus=4)
    assert place(apex(catalog), pair, small, large) == (Config(1, 2, 1), "i1")
    assert place(apex(catalog), pair, small, warm("i1", vcpus=2)) == (Config(2, 2, 2), "i0")
    last = chain(side_by_side)  # there is nothing to stay together for
    pair = queue_view(last, waiting=2)
    assert place(apex(last), pair, small, warm("i1", vcpus=2)) == (Config(1, 2, 1), "i0")


def test_a_risk_is_better_than_to_wait_for_room() -> None:
    catalog = chain(LEAN_AND_FAST, spread=0.02)
    on_the_edge = queue_view(catalog, waiting=2, slo_ms=104)  # two vCPUs would be better
    assert place(apex(catalog), on_the_edge, warm("i0", vcpus=1)) == (Config(1, 1, 1), "i0")
    assert place(apex(catalog, "daring"), on_the_edge, warm("i0", vcpus=1)) is None
    too_late = queue_view(catalog, slo_ms=99)  # one vCPU takes 100
    assert place(apex(catalog), too_late, warm("i0", vcpus=1)) is None


def test_a_risk_is_searched_for_once_and_only_where_there_is_no_room_without() -> None:
    catalog = chain(LEAN_AND_FAST, spread=0.02)
    on_the_edge, policy = queue_view(catalog, waiting=2, slo_ms=104), apex(catalog)
    offer = policy.decide(on_the_edge)
    assert isinstance(offer, Offer)
    before, full = offer.effort, {"i0": make_node("i0", free=(0, 0))}
    assert policy.place(on_the_edge, offer, {"i0": warm("i0")}) is not None
    assert offer.effort == before
    assert policy.place(on_the_edge, offer, full) is None
    after = offer.effort
    assert after > before
    assert policy.place(on_the_edge, offer, full) is None
    assert offer.effort == after


@pytest.mark.parametrize("roomy", ["i0", "i1"])
def test_job_that_takes_a_risk_takes_as_little_as_there_is_room_for(roomy: str) -> None:
    """Three vCPUs would be best. Two are hardly faster than one, but it is late enough for that to
    count, near the input (on i0) as well as elsewhere."""
    times = {(1, 1, 1): 100, (1, 2, 1): 99.5, (1, 3, 1): 90}
    catalog = chain({(1, 1, 1): 10}, times, spread=0.02)
    found = queue_view(catalog, stage="b", slo_ms=104)
    assert offered(catalog, found).plans[0].config == Config(1, 3, 1)
    found.requests["r1"].runs["a"].keeper = "i0"
    found.queue.remote_us = 1
    nodes = {name: make_node(name, free=(0, 0)) for name in ("i0", "i1")}
    nodes[roomy] = warm(roomy, vcpus=2, function="b")
    assert place(apex(catalog), found, *nodes.values()) == (Config(1, 2, 1), roomy)


def remote(extra_ms: float, slo_ms: float) -> tuple[Catalog, QueueView]:
    """A job waits at the second stage; i0 has its input, and from elsewhere it takes longer."""
    catalog = chain({(1, 1, 1): 10}, {(1, 1, 1): 130, (1, 3, 1): 100})
    found = queue_view(catalog, stage="b", slo_ms=slo_ms)
    found.requests["r1"].runs["a"].keeper = "i0"
    found.queue.remote_us = ms(extra_ms)
    return catalog, found


@pytest.mark.parametrize(
    ("extra_ms", "slo_ms", "where"),
    [
        (1, 400, (Config(1, 3, 1), "i1")),  # 13 x 101 there against 11 x 130 here
        (20, 400, (Config(1, 1, 1), "i0")),  # 13 x 120
        (1, 120, (Config(1, 3, 1), "i1")),  # the only one in time
        (30, 120, None),  # too late there, no room here: wait
    ],
)
def test_a_transfer_is_weighed_against_another_config(
    extra_ms: float, slo_ms: float, where: tuple[Config, str] | None
) -> None:
    catalog, found = remote(extra_ms, slo_ms)
    near, far = warm("i0", vcpus=2, function="b"), warm("i1", vcpus=4, function="b")
    assert place(apex(catalog), found, near, far) == where


def test_a_transfer_that_is_a_risk_is_better_than_to_wait_for_room() -> None:
    catalog = chain({(1, 1, 1): 10}, {(1, 1, 1): 100}, spread=0.05)
    found = queue_view(catalog, stage="b", slo_ms=120)
    found.requests["r1"].runs["a"].keeper = "i0"
    found.queue.remote_us = ms(15)  # 115 of 120, where one time in twenty-five it is late
    full = make_node("i0", free=(0, 0))
    assert place(apex(catalog), found, full, warm("i1", function="b")) == (Config(1, 1, 1), "i1")


def test_a_transfer_that_was_never_seen_takes_time_too() -> None:
    catalog, found = remote(0, 400)
    near, far = warm("i0", vcpus=2, function="b"), warm("i1", vcpus=4, function="b")
    # 13 x 110 there (it is taken to last 10 ms) against 11 x 130 here
    assert place(apex(catalog), found, near, far) == (Config(1, 1, 1), "i0")


def test_job_loads_no_model_while_one_is_to_be_had_soon() -> None:
    catalog = chain(LEAN_AND_FAST)
    loading, cold = make_node("i0"), make_node("i1", vcpus=8)
    assert place(apex(catalog), queue_view(catalog), cold) == (Config(1, 1, 1), "i1")
    loading.load(0, "a", 100, 0)
    one = queue_view(catalog)
    assert place(apex(catalog), one, loading, cold) is None
    one.now_us = 1  # a cold start takes no time in this catalog, so any wait is too long
    assert place(apex(catalog), one, loading, cold) == (Config(1, 1, 1), "i1")


def test_a_model_on_a_quarantined_node_is_waited_for_all_the_same() -> None:
    catalog = chain(LEAN_AND_FAST)
    quarantined, other = warm("i0"), make_node("i1")
    one = queue_view(catalog)
    one.state.nodes = by_name(quarantined, other)
    offer = offered(catalog, one)
    assert apex(catalog).place(one, offer, by_name(other)) is None


def test_a_model_on_a_node_where_the_job_failed_twice_is_not_waited_for() -> None:
    catalog = chain(LEAN_AND_FAST)
    failing, other = warm("i0"), make_node("i1")
    one = queue_view(catalog)
    one.state.nodes = by_name(failing, other)
    offer = offered(catalog, one)
    stage_run = one.requests["r1"].runs["a"]
    stage_run.failed_on = ("i0",)
    assert apex(catalog).place(one, offer, by_name(other)) is None
    stage_run.failed_on = ("i0", "i0")
    placement = apex(catalog).place(one, offer, by_name(other))
    assert placement is not None
    assert placement.node.invoker == "i1"
