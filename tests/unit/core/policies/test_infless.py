"""INFless, rule by rule. A node of 4 vCPUs and 2 vGPUs weighs 4 x 64 + 2 x 2029 = 4314."""

from fractions import Fraction

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.policies.baselines import stage_shares
from esg.core.policies.infless import Infless, Reading
from esg.core.policies.interface import Offer
from esg.core.policies.table import policy
from esg.core.search.plan import Plan
from esg.core.state.node_books import NodeBooks
from esg.units import ms
from tests.support.policy_cases import (
    by_name,
    chain,
    configs,
    crowded,
    function,
    make_node,
    place,
    queue_view,
    run_two_hundred_heavy_requests,
)

BATCHES = chain({(1, 1, 1): 40, (2, 1, 1): 60, (4, 1, 1): 80})


def infless(catalog: Catalog = BATCHES, reading: Reading = Reading.PER_WEIGHT) -> Infless:
    return Infless(catalog, reading)


def batch_for(waiting: int, slo_ms: float, interval_ms: float = 0) -> int:
    """Of a single stage, whose budget is the whole SLO."""
    one = queue_view(BATCHES, waiting=waiting, slo_ms=slo_ms, interval_ms=interval_ms)
    return infless().decide(one).plans[0].config.batch


# The stage budget.


def test_a_stage_gets_its_share_of_the_slo_by_mean_service_time() -> None:
    # Means: a 100 ms, b (350 + 250) / 2 = 300 ms. Of an SLO of 400 ms b has 300 ms.
    two = chain({(1, 1, 1): 100}, {(1, 1, 1): 350, (1, 2, 1): 250})
    assert configs(infless(two).decide(queue_view(two, stage="b", slo_ms=400)).plans) == [
        Config(1, 2, 1)
    ]
    # 350 ms are three quarters of 466.67 ms
    assert len(infless(two).decide(queue_view(two, stage="b", slo_ms=467)).plans) == 2


def test_infless_gives_the_longest_path_of_a_dag_by_means_the_whole_slo() -> None:
    # a 100, then b 300 beside c 100: of 400 along a and b, every stage has its part
    after = {"a": (), "b": ("a",), "c": ("a",)}
    means = {"a": 100, "b": 300, "c": 100}
    stages = [Stage(s, function(s, {(1, 1, 1): means[s]}), before) for s, before in after.items()]
    shares = stage_shares(Application.of("app", stages))
    assert shares == {"a": Fraction(1, 4), "b": Fraction(3, 4), "c": Fraction(1, 4)}


def test_the_stage_budget_does_not_adapt() -> None:
    two = chain({(1, 1, 1): 100}, {(1, 1, 1): 350, (1, 2, 1): 250})
    in_time, late = (queue_view(two, stage="b", slo_ms=400, now_ms=now) for now in (10, 5000))
    assert infless(two).decide(in_time) == infless(two).decide(late)


# The batch.


@pytest.mark.parametrize(
    ("slo_ms", "batch"),
    [
        (160, 4),  # 80 is half of 160
        (159, 2),  # 60 is within 79.5
        (120, 2),  # 60 is half of 120
        (119, 1),  # 40 is within 119
        (40, 1),  # 40 is within 40: a single job may use the whole budget
    ],
)
def test_a_batch_may_take_half_the_budget_and_a_single_job_all_of_it(
    slo_ms: float, batch: int
) -> None:
    assert batch_for(waiting=5, slo_ms=slo_ms) == batch


def test_infless_offers_no_batch_larger_than_the_queue() -> None:
    assert [batch_for(waiting, 1000) for waiting in (1, 2, 3, 4, 9)] == [1, 2, 2, 4, 4]


def test_batches_are_halved_not_counted_down() -> None:
    # Half the budget is 60 ms: a batch of 2 would do, but after 3 comes 3 // 2 = 1.
    sizes = chain({(1, 1, 1): 40, (2, 1, 1): 50, (3, 1, 1): 70})
    offer = infless(sizes).decide(queue_view(sizes, waiting=3, slo_ms=120))
    assert configs(offer.plans) == [Config(1, 1, 1)]
    assert offer.effort == 2  # one config of each batch was looked at


# The rate window.


@pytest.mark.parametrize(
    ("interval_ms", "batch"),
    [
        (0, 4),  # not known yet
        (30, 4),  # 4 jobs need 120 ms to come; 200 - 80 = 120 are left
        (31, 2),  # 2 jobs need 62 ms; 200 - 60 = 140 are left
        (70, 2),
        (71, 1),
        (5000, 1),  # a queue with less than a job per second is served nevertheless
    ],
)
def test_a_batch_needs_jobs_that_come_fast_enough(interval_ms: float, batch: int) -> None:
    assert batch_for(waiting=4, slo_ms=200, interval_ms=interval_ms) == batch


def test_the_rate_window_is_asked_of_every_config() -> None:
    # T = 200. With 100 ms, 100 are left for two jobs to come; with 80 ms, 120.
    speeds = chain({(1, 1, 1): 50, (2, 1, 1): 100, (2, 2, 1): 80})

    def offered(interval_ms: float) -> list[Config]:
        one = queue_view(speeds, waiting=2, slo_ms=200, interval_ms=interval_ms)
        return sorted(configs(infless(speeds).decide(one).plans))

    assert offered(50) == [Config(2, 1, 1), Config(2, 2, 1)]
    assert offered(55) == [Config(2, 2, 1)]
    assert offered(61) == [Config(1, 1, 1)]


# When nothing will do.


def test_infless_runs_as_fast_as_it_can_what_cannot_keep_the_budget() -> None:
    # 50 ms is the best there is; of two ways to get it, the one without a second vGPU is cheaper.
    late = chain({(1, 1, 1): 70, (1, 4, 1): 50, (1, 4, 2): 50, (2, 4, 2): 45})
    one = queue_view(late, waiting=1, slo_ms=30)
    assert configs(infless(late).decide(one).plans) == [Config(1, 4, 1)]
    two = queue_view(late, waiting=2, slo_ms=30)
    assert configs(infless(late).decide(two).plans) == [Config(2, 4, 2)]


# The score.

FILLING = chain({(1, 1, 1): 100, (1, 4, 2): 80})


@pytest.mark.parametrize("reading", [Reading.PER_WEIGHT, Reading.AS_CODED])
def test_a_config_that_fills_the_node_wins(reading: Reading) -> None:
    # The worked example of the module: 12.5 against 0.009, and 53925 against 19
    assert place(infless(FILLING, reading), queue_view(FILLING), make_node("i0")) == (
        Config(1, 4, 2),
        "i0",
    )


def test_the_readings_differ_in_what_a_config_takes() -> None:
    # A node of 8 and 4 weighs 8628.     left           r     per weight                as coded
    #   (1, 1, 1) 100 ms, weighs 2093    6535 / 0.757   10    10 / 2093 / 0.757 = .0063  13
    #   (1, 1, 2)  80 ms, weighs 4122    4506 / 0.522   12.5  12.5 / 4122 / .522 = .0058 24
    table = chain({(1, 1, 1): 100, (1, 1, 2): 80})
    empty = make_node("i0", vcpus=8, vgpus=4)
    assert place(infless(table), queue_view(table), empty) == (Config(1, 1, 1), "i0")
    assert place(infless(table, Reading.AS_CODED), queue_view(table), empty) == (
        Config(1, 1, 2),
        "i0",
    )


def test_plans_are_offered_in_the_order_of_what_the_score_is_before_the_node() -> None:
    # per weight: 10 / 2093 = .0048, 12.5 / 4314 = .0029, as above
    assert configs(infless(FILLING).decide(queue_view(FILLING)).plans) == [
        Config(1, 1, 1),
        Config(1, 4, 2),
    ]
    coded = infless(FILLING, Reading.AS_CODED)
    assert configs(coded.decide(queue_view(FILLING)).plans) == [Config(1, 4, 2), Config(1, 1, 1)]


@pytest.mark.parametrize(("slow_ms", "first"), [(135, Config(1, 16, 1)), (136, Config(1, 1, 2))])
def test_a_vcpu_weighs_64_and_a_vgpu_2029(slow_ms: int, first: tuple[int, int, int]) -> None:
    # (16, 1) weighs 3053, (1, 2) weighs 4122: that is worth it down to 100 / 135.01 of the time
    table = chain({(1, 16, 1): slow_ms, (1, 1, 2): 100})
    assert configs(infless(table).decide(queue_view(table)).plans)[0] == first


def test_a_pair_is_chosen_not_a_config_and_then_a_node() -> None:
    # i0 has 1 vCPU and 1 vGPU left: the small config fills it, which nothing beats on i1, where
    # the large one would leave a vCPU and a vGPU.
    table = chain({(1, 1, 1): 100, (1, 3, 1): 60})
    nodes = make_node("i0", free=(1, 1)), make_node("i1")
    assert place(infless(table), queue_view(table), *nodes) == (Config(1, 1, 1), "i0")


@pytest.mark.parametrize("reading", list(Reading))
def test_the_fuller_node_is_preferred(reading: Reading) -> None:
    nodes = (
        make_node("i0"),
        make_node("i1", free=(3, 2)),
        make_node("i2", free=(3, 1)),
        make_node("i3", free=(4, 1)),
    )
    small = chain({(1, 1, 1): 100})
    assert place(infless(small, reading), queue_view(small), *nodes) == (Config(1, 1, 1), "i2")


def test_infless_takes_the_first_by_name_of_equal_nodes() -> None:
    nodes = make_node("i2"), make_node("i0"), make_node("i1")
    assert place(infless(FILLING), queue_view(FILLING), *nodes) == (Config(1, 4, 2), "i0")


def test_a_large_node_is_judged_by_the_fraction_left() -> None:
    # 1 vGPU and 1 vCPU: 4314 - 2093 = 2221 is 51 % of the small node; of the large one, which
    # weighs 15227 and has 2 vGPUs and 4 vCPUs free as well, it is only 15 %.
    small = chain({(1, 1, 1): 100})
    nodes = make_node("i0"), make_node("i1", vcpus=16, vgpus=7, free=(4, 2))
    assert place(infless(small), queue_view(small), *nodes) == (Config(1, 1, 1), "i1")


# Room.


def test_infless_places_nothing_without_room() -> None:
    assert place(infless(FILLING), queue_view(FILLING)) is None
    assert place(infless(FILLING), queue_view(FILLING), make_node("i0", free=(4, 0))) is None
    assert place(infless(FILLING), queue_view(FILLING), make_node("i0", free=(0, 1))) is None


def test_a_node_whose_slices_have_no_memory_for_the_model_is_passed_over() -> None:
    nodes: tuple[NodeBooks, ...] = (crowded(make_node("i0")), make_node("i1", vcpus=5, vgpus=3))
    assert place(infless(FILLING), queue_view(FILLING), *nodes) == (Config(1, 4, 2), "i1")
    assert place(infless(FILLING), queue_view(FILLING), crowded(make_node("i0"))) is None


def test_infless_can_place_any_plan_of_the_stage() -> None:
    # as the dispatcher does with the minimum config
    offer = Offer((Plan("a", BATCHES.functions["a"].profile.minimum, ms(40), 0),))
    placement = infless().place(queue_view(BATCHES), offer, by_name(make_node("i0")))
    assert placement is not None
    assert placement.plan is offer.plans[0]


# The third reading.


def test_config_first_compares_configs_without_the_node() -> None:
    chosen = infless(FILLING, Reading.CONFIG_FIRST)
    assert place(chosen, queue_view(FILLING), make_node("i0")) == (Config(1, 1, 1), "i0")


def test_config_first_goes_on_to_the_next_config_when_there_is_no_room() -> None:
    # per weight: 20 / (2 x 64 + 2029) = .0093 against 10 / 2093 = .0048
    table = chain({(1, 1, 1): 100, (1, 2, 1): 50})
    chosen = infless(table, Reading.CONFIG_FIRST)
    assert place(chosen, queue_view(table), make_node("i0")) == (Config(1, 2, 1), "i0")
    assert place(chosen, queue_view(table), make_node("i0", free=(1, 1))) == (Config(1, 1, 1), "i0")


# All together.


def test_the_table_has_both_published_readings() -> None:
    table = chain({(1, 1, 1): 100, (1, 1, 2): 80})
    empty = make_node("i0", vcpus=8, vgpus=4)
    assert place(policy("infless", table), queue_view(table), empty) == (Config(1, 1, 1), "i0")
    assert place(policy("infless-code", table), queue_view(table), empty) == (Config(1, 1, 2), "i0")


@pytest.mark.parametrize("name", ["infless", "infless-code"])
def test_every_request_of_a_heavy_load_is_answered(name: str) -> None:
    run_two_hundred_heavy_requests(name)
