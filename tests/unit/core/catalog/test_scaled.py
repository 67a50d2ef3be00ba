"""A catalog in another time: everything takes a multiple of what it took."""

from dataclasses import replace

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog, scaled
from esg.core.journal.format import catalog_digest, functions_digest
from esg.errors import Rejected
from esg.units import ms
from tests.support.small_catalog import SMALL


def test_times_cold_starts_slos_and_costs_shrink_alike() -> None:
    small, tenth = SMALL.function("detect"), scaled(SMALL, 0.1).function("detect")
    assert tenth.cold_start_us == ms(20)
    assert tenth.profile.configs == small.profile.configs
    assert tenth.profile.time_us.tolist() == [ms(10), ms(6), ms(15), ms(9)]
    assert (tenth.profile.job_cost_pusd * 10 == small.profile.job_cost_pusd).all()
    assert (tenth.profile.task_cost_pusd * 10 == small.profile.task_cost_pusd).all()
    assert scaled(SMALL, 0.1).application("scene").slo_us == ms(60)


def test_scaled_catalog_keeps_what_is_no_time() -> None:
    before, after = SMALL.function("depth"), scaled(SMALL, 3).function("depth")
    assert after.profile.relative_std == before.profile.relative_std
    assert (after.memory_mb, after.input_bytes) == (before.memory_mb, before.input_bytes)
    assert scaled(SMALL, 3).cluster == SMALL.cluster
    assert scaled(SMALL, 3).prices == SMALL.prices


def test_applications_keep_their_shape_and_run_the_scaled_functions() -> None:
    catalog = scaled(SMALL, 0.5)
    scene = catalog.application("scene")
    assert scene.series == SMALL.application("scene").series
    assert scene.stages["depth"].function is catalog.function("depth")
    assert scene.stages["label"].after == ("detect", "depth")
    assert scene.alone_us == SMALL.application("scene").alone_us // 2


def test_an_slo_stays_the_same_multiple_of_the_time_alone() -> None:
    shipped, fast = load_catalog(), scaled(load_catalog(), 0.01)
    for name, application in shipped.applications.items():
        quick = fast.application(name)
        expected = application.slo_us / application.alone_us
        assert quick.slo_us / quick.alone_us == pytest.approx(expected, rel=1e-3)


def test_a_factor_of_one_gives_the_catalog_itself() -> None:
    assert scaled(SMALL, 1) is SMALL
    assert scaled(SMALL, 1.0) is SMALL


def test_scaled_times_are_at_least_a_microsecond() -> None:
    catalog = scaled(SMALL, 1e-9)
    assert catalog.function("resize").profile.time_us.tolist() == [1]
    assert catalog.application("thumb").slo_us == 1


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_a_factor_that_makes_no_sense_is_refused(factor: float) -> None:
    with pytest.raises(Rejected, match="it must be a number greater than 0"):
        scaled(SMALL, factor)


def test_times_that_cannot_be_planned_for_are_refused() -> None:
    with pytest.raises(Rejected, match="the longest that can be planned for"):
        scaled(SMALL, 1e9)


def test_a_fingerprint_of_functions_sees_their_times_and_no_applications() -> None:
    fewer = replace(SMALL, applications={"map": SMALL.application("map")})
    assert functions_digest(fewer) == functions_digest(SMALL)
    assert catalog_digest(fewer) != catalog_digest(SMALL)
    assert functions_digest(scaled(SMALL, 2)) != functions_digest(SMALL)


def test_no_fingerprint_sees_the_code_of_a_functions_cpu_part() -> None:
    def with_handler(catalog: Catalog) -> Catalog:
        functions = {n: replace(f, handler="a:B") for n, f in catalog.functions.items()}
        return replace(catalog, functions=functions)

    assert functions_digest(with_handler(SMALL)) == functions_digest(SMALL)
    assert catalog_digest(with_handler(SMALL)) == catalog_digest(SMALL)
