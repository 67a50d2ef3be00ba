"""FaST-GShare, rule by rule."""

from esg.core.catalog.config import Config
from esg.core.policies.fast_gshare import FastGShare
from tests.support.policy_cases import (
    chain,
    configs,
    crowded,
    make_node,
    place,
    queue_view,
    run_two_hundred_heavy_requests,
)

# jobs per second and vGPU: 20, 25, 33 / 2 = 17, 40
EXAMPLE = chain({(1, 1, 1): 50, (2, 1, 1): 80, (2, 1, 2): 60, (4, 1, 1): 100})


def offered(waiting: int, slo_ms: float) -> list[Config]:
    """Of a single stage, whose budget is the whole SLO."""
    return configs(
        FastGShare(EXAMPLE).decide(queue_view(EXAMPLE, waiting=waiting, slo_ms=slo_ms)).plans
    )


# The config.


def test_the_most_throughput_per_vgpu_comes_first() -> None:
    assert offered(2, 100) == [Config(2, 1, 1), Config(1, 1, 1), Config(2, 1, 2)]
    assert offered(4, 100) == [Config(4, 1, 1), Config(2, 1, 1), Config(1, 1, 1), Config(2, 1, 2)]


def test_fast_gshare_offers_no_batch_larger_than_the_queue() -> None:
    assert offered(1, 100) == [Config(1, 1, 1)]
    assert offered(3, 100) == offered(2, 100)
    assert offered(9, 100) == offered(4, 100)


def test_fast_gshare_offers_configs_that_keep_the_budget() -> None:
    assert offered(4, 99) == [Config(2, 1, 1), Config(1, 1, 1), Config(2, 1, 2)]
    assert offered(4, 60) == [Config(1, 1, 1), Config(2, 1, 2)]


def test_fast_gshare_puts_the_fewest_vcpus_first_at_equal_efficiency() -> None:
    # 1 / 50 = 2 / 50 / 2 = 1 / 50
    table = chain({(1, 4, 1): 50, (2, 2, 2): 50, (1, 1, 1): 50})
    plans = FastGShare(table).decide(queue_view(table, waiting=2)).plans
    assert configs(plans) == [Config(1, 1, 1), Config(2, 2, 2), Config(1, 4, 1)]


def test_efficiency_counts_vgpus_but_not_vcpus() -> None:
    table = chain({(1, 1, 1): 50, (1, 4, 1): 49, (1, 1, 2): 26})
    plans = FastGShare(table).decide(queue_view(table)).plans
    assert configs(plans) == [Config(1, 4, 1), Config(1, 1, 1), Config(1, 1, 2)]


def test_the_effort_is_the_number_of_configs_that_the_queue_can_fill() -> None:
    efforts = [
        FastGShare(EXAMPLE).decide(queue_view(EXAMPLE, waiting=n, slo_ms=50)).effort
        for n in (1, 2, 4)
    ]
    assert efforts == [1, 3, 4]


def test_fast_gshare_runs_as_fast_as_it_can_what_cannot_keep_the_budget() -> None:
    # Two ways to 50 ms; the one without a second vGPU is cheaper.
    late = chain({(1, 1, 1): 70, (1, 4, 2): 50, (1, 4, 1): 50, (2, 4, 2): 45})
    assert configs(FastGShare(late).decide(queue_view(late, slo_ms=30)).plans) == [Config(1, 4, 1)]
    two = queue_view(late, waiting=2, slo_ms=30)
    assert configs(FastGShare(late).decide(two).plans) == [Config(2, 4, 2)]


def test_the_stage_budget_does_not_adapt() -> None:
    # Means: a 100 ms, b 300 ms. Of an SLO of 400 ms b has 300 ms, now and later.
    two = chain({(1, 1, 1): 100}, {(1, 1, 1): 350, (1, 2, 1): 250})
    for now_ms in (10, 5000):
        one = queue_view(two, stage="b", slo_ms=400, now_ms=now_ms)
        assert configs(FastGShare(two).decide(one).plans) == [Config(1, 2, 1)]


# The node.

SMALL = chain({(1, 2, 1): 50})


def test_the_fewest_vgpus_are_left_over_then_the_fewest_vcpus_then_names_decide() -> None:
    def goes_to(*nodes: tuple[str, int, int]) -> str:
        free = [make_node(name, free=(vcpus, vgpus)) for name, vcpus, vgpus in nodes]
        placed = place(FastGShare(SMALL), queue_view(SMALL), *free)
        assert placed is not None
        return placed[1]

    assert goes_to(("i0", 2, 2), ("i1", 4, 1)) == "i1"
    assert goes_to(("i0", 4, 1), ("i1", 3, 1), ("i2", 2, 2)) == "i1"
    assert goes_to(("i2", 3, 1), ("i1", 3, 1)) == "i1"
    # there is the best fit, but it has too few vCPUs
    assert goes_to(("i0", 1, 1), ("i1", 4, 2)) == "i1"


def test_the_next_config_is_tried_when_the_best_has_no_room() -> None:
    table = chain({(1, 1, 1): 50, (1, 4, 1): 40})
    assert place(FastGShare(table), queue_view(table), make_node("i0")) == (Config(1, 4, 1), "i0")
    assert place(FastGShare(table), queue_view(table), make_node("i0", free=(3, 2))) == (
        Config(1, 1, 1),
        "i0",
    )
    # a better config on a worse fit comes before a worse config on a better fit
    nodes = make_node("i0", free=(3, 1)), make_node("i1")
    assert place(FastGShare(table), queue_view(table), *nodes) == (Config(1, 4, 1), "i1")


def test_fast_gshare_places_nothing_without_room() -> None:
    assert place(FastGShare(SMALL), queue_view(SMALL)) is None
    assert place(FastGShare(SMALL), queue_view(SMALL), make_node("i0", free=(1, 2))) is None
    assert place(FastGShare(SMALL), queue_view(SMALL), make_node("i0", free=(4, 0))) is None


def test_a_node_whose_slices_have_no_memory_for_the_model_is_passed_over() -> None:
    nodes = crowded(make_node("i0", free=(2, 1))), make_node("i1")
    assert place(FastGShare(SMALL), queue_view(SMALL), *nodes) == (Config(1, 2, 1), "i1")


# The lean reading.


def test_lean_means_no_more_vcpus_than_the_budget_asks_for() -> None:
    # 100 ms are kept by (1, 2, 1): 1 / 90 = 11 a second; and by (2, 4, 1): 2 / 100 = 20
    table = chain({(1, 1, 1): 120, (1, 2, 1): 90, (1, 4, 1): 45, (2, 2, 1): 150, (2, 4, 1): 100})
    lean, literal = FastGShare(table, lean=True), FastGShare(table)
    one = queue_view(table, waiting=2, slo_ms=100)
    assert configs(lean.decide(one).plans) == [Config(2, 4, 1), Config(1, 2, 1)]
    assert configs(literal.decide(one).plans) == [Config(1, 4, 1), Config(2, 4, 1), Config(1, 2, 1)]


def test_lean_or_not_late_jobs_run_as_fast_as_they_can() -> None:
    table = chain({(1, 1, 1): 120, (1, 2, 1): 90})
    plans = FastGShare(table, lean=True).decide(queue_view(table, slo_ms=50)).plans
    assert configs(plans) == [Config(1, 2, 1)]


# All together.


def test_fast_gshare_answers_every_request_of_a_heavy_load() -> None:
    run_two_hundred_heavy_requests("fast-gshare")
