"""The bound on a cluster's rate, on examples worked by hand."""

from dataclasses import replace

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Function, Stage
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.shipped import DEFAULT
from esg.emulator.scenario import Scenario, applied
from esg.emulator.throughput import Size, most_per_s


def application(*stages: dict[Config, int], slo_us: int = 1_000_000) -> Application:
    def function(place: int, times_us: dict[Config, int]) -> Function:
        profile = Profile.of(f"f{place}", times_us, Prices())
        return replace(load_catalog(DEFAULT).function("deblur"), name=f"f{place}", profile=profile)

    chain = [
        Stage(f"s{place}", function(place, times_us), (f"s{place - 1}",) if place else ())
        for place, times_us in enumerate(stages)
    ]
    return Application.of("app", chain, slo_us=slo_us)


def test_one_config_is_bound_by_what_is_scarce() -> None:
    app = application({Config(1, 2, 1): 100_000})
    assert most_per_s({app: 1.0}, Size(vcpus=100, vgpus=7)) == pytest.approx(70, rel=0.01)
    assert most_per_s({app: 1.0}, Size(vcpus=4, vgpus=7)) == pytest.approx(20, rel=0.01)


def test_stages_and_applications_add_up_by_their_weights() -> None:
    times_us = {Config(1, 1, 1): 100_000}
    short, long = application(times_us), application(times_us, times_us)
    size = Size(vcpus=1_000, vgpus=10)
    assert most_per_s({long: 1.0}, size) == pytest.approx(50, rel=0.01)
    assert most_per_s({short: 3.0, long: 1.0}, size) == pytest.approx(80, rel=0.01)


def test_mixture_of_configs_uses_both_resources_up() -> None:
    """Half of the requests with either config: each alone is bound to 10/s by the one or the
    other."""
    app = application({Config(1, 1, 2): 100_000, Config(1, 2, 1): 100_000})
    assert most_per_s({app: 1.0}, Size(vcpus=3, vgpus=3)) == pytest.approx(20, rel=0.01)


def test_batches_count_only_as_far_as_the_deadline_leaves_time() -> None:
    times_us = {Config(1, 1, 1): 100_000, Config(4, 1, 1): 200_000}
    size = Size(vcpus=1_000, vgpus=1)
    assert most_per_s({application(times_us): 1.0}, size) == pytest.approx(20, rel=0.01)
    hasty = application(times_us, slo_us=150_000)
    assert most_per_s({hasty: 1.0}, size) == pytest.approx(10, rel=0.01)


def test_cluster_without_slices_carries_nothing() -> None:
    app = application({Config(1, 1, 1): 100_000})
    assert most_per_s({app: 1.0}, Size(vcpus=16, vgpus=0)) == 0.0


def test_large_mix_is_estimated_from_some_of_it() -> None:
    apps = [application({Config(1, 1, 1): 100_000}) for _ in range(1_000)]
    size = Size(vcpus=1_000, vgpus=10)
    assert most_per_s(dict.fromkeys(apps, 1.0), size) == pytest.approx(100, rel=0.01)


def test_the_papers_cluster_carries_the_heavy_rate_with_room_to_spare() -> None:
    seen = applied(load_catalog(DEFAULT), Scenario(nodes=16, vcpus=16, vgpus=7))
    mix = dict.fromkeys(seen.applications.values(), 1.0)
    most = most_per_s(mix, Size(vcpus=16 * 16, vgpus=16 * 7))
    assert 75 / most < 0.7
    half = most_per_s(mix, Size(vcpus=8 * 16, vgpus=8 * 7))
    assert half == pytest.approx(most / 2, rel=0.001)
