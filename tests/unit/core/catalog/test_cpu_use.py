"""What vCPUs do for one job: as profiles are modelled, and as handlers work."""

from dataclasses import replace

import pytest

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.model import Application, Catalog, Function, Stage
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.profile_model import Grid, TimeModel
from esg.core.catalog.slice_kinds import all_alike
from esg.units import ms

WITHIN, ACROSS = CpuUse.WITHIN_JOB, CpuUse.ACROSS_JOBS
MODEL = TimeModel(base_ms=100, cpu_share=0.6, parallel_fraction=1.0, gpu_fixed_share=0.5)
GRID = Grid(batch=[1, 2], vcpus=[1, 2, 4], vgpus=[1, 2])


def function(
    modelled: CpuUse | None, handled: CpuUse = ACROSS, *, name: str = "blur", handler: str = "m:H"
) -> Function:
    """60 ms of CPU and 40 ms of GPU; with four vCPUs for one job, 15 and 40."""
    times_us = replace(MODEL, cpu=modelled or WITHIN).times_us(GRID)
    return Function(
        name=name,
        profile=Profile.of(name, times_us, Prices(), cpu=modelled),
        cold_start_us=0,
        input_bytes=0,
        memory_mb=1,
        handler=handler,
        cpu=handled,
    )


def chain(*functions: Function, slo_us: int = ms(150)) -> Application:
    stages = [
        Stage(one.name, one, tuple(before.name for before in functions[n - 1 : n]))
        for n, one in enumerate(functions)
    ]
    return Application.of("photo", stages, slo_us=slo_us)


def catalog(application: Application) -> Catalog:
    return Catalog(
        functions={one.name: one for one in application.functions()},
        applications={"photo": application},
        cluster=Cluster.alike(nodes=1, vcpus=4, vgpus=2),
        kinds=all_alike(100),
        prices=Prices(),
    )


@pytest.mark.parametrize(
    ("one", "otherwise", "fastest_ms"),
    [
        (function(WITHIN, ACROSS), True, 100),
        (function(WITHIN, WITHIN), False, 55),
        (function(ACROSS, WITHIN), True, 100),
        (function(ACROSS, ACROSS), False, 100),
        (function(None, ACROSS), False, 55),
        (function(WITHIN, ACROSS, handler=""), False, 55),
    ],
    ids=["core each", "as modelled", "all cores", "as modelled, core each", "measured", "no part"],
)
def test_handlers_that_work_otherwise_than_modelled_are_known_with_the_time_that_they_allow(
    one: Function, otherwise: bool, fastest_ms: int
) -> None:
    assert one.handled_otherwise is otherwise
    assert one.fastest_handled_us == ms(fastest_ms)


def test_what_was_modelled_is_known_of_profiles_that_are_narrowed_or_stretched() -> None:
    profile = function(ACROSS).profile
    assert profile.narrowed(lambda config: config.vcpus < 4).cpu is ACROSS
    assert profile.scaled(2.0, Prices()).cpu is ACROSS


def test_a_deadline_that_needs_several_cores_for_one_job_is_possible_only_if_they_are_used() -> (
    None
):
    two = function(WITHIN), function(WITHIN, name="sharpen")
    assert catalog(chain(*two)).unmeetable() == {}
    two = function(ACROSS), function(ACROSS, name="sharpen")
    assert catalog(chain(*two)).unmeetable() == {
        "photo": "an SLO of 150 ms cannot be met: photo takes 200 ms with the fastest configs: "
        'further vCPUs make no single job of blur, sharpen faster (cpu = "across_jobs")'
    }


def test_a_deadline_that_no_vcpu_could_keep_is_not_put_down_to_them() -> None:
    (why,) = catalog(chain(function(WITHIN), slo_us=ms(50))).unmeetable().values()
    assert why == "an SLO of 50 ms cannot be met: photo takes 55 ms with the fastest configs"
