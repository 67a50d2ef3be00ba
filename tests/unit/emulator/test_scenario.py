"""What is to be emulated, as a value that can be written down."""

from dataclasses import replace
from typing import Any

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Stage
from esg.core.catalog.profile import Profile
from esg.core.journal.format import Header
from esg.core.messages.codec import decode, encode
from esg.emulator.scenario import SETTINGS, Scenario, applied, setting
from esg.errors import Rejected
from tests.support.emulated_runs import paper, scenario
from tests.support.small_catalog import PRICES, SMALL

UNUSUAL = scenario(
    policy="orion",
    engine="astar",
    k=7,
    group_size=2,
    slo_scale=0.8,
    nodes=3,
    vcpus=8,
    vgpus=4,
    seed=-5,
    warm_start=False,
    batching=False,
    gpu_sharing=False,
    locality=False,
    prewarm=False,
    noise=2.5,
    orion_cutoff_ms=10,
    overhead="none",
    search_steps_per_ms=9,
)


@pytest.mark.parametrize(
    "told",
    [scenario(), scenario(slo_scale=None), scenario(slo_scale=1, noise=2), UNUSUAL],
    ids=["usual", "own SLOs", "whole numbers", "all unusual"],
)
def test_a_scenario_survives_being_written_down(told: Scenario) -> None:
    header = decode(Header, encode(told.header(paper())))
    assert Scenario.of(header, header.world) == told


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": "many"},
        {"nodes": 1.5},
        {"warm_start": "maybe"},
        {"noise": "loud"},
        {"nodes": 0},
        {"colour": "blue"},
    ],
    ids=str,
)
def test_a_written_world_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    header = scenario().header(paper())
    with pytest.raises(Rejected):
        Scenario.of(header, header.world | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": 0}, "nodes is 0; it must be at least 1"),
        ({"vgpus": -1}, "vgpus is -1"),
        ({"k": 0}, "k is 0"),
        ({"group_size": 0}, "group_size is 0"),
        ({"slo_scale": 0.0}, "the SLO scale is 0.0; it must be greater than 0"),
        ({"slo_scale": float("nan")}, "the SLO scale is nan"),
        ({"noise": -0.1}, "noise is -0.1"),
        ({"noise": float("nan")}, "noise is nan"),
        ({"noise": float("inf")}, "noise is inf; it must be at most 100"),
        ({"slo_scale": 1001}, "slo_scale is 1001; it must be at most 1000"),
        ({"time_scale": 1001}, "time_scale is 1001; it must be at most 1000"),
        ({"time_scale": 0.0}, "the time scale is 0.0; it must be greater than 0"),
        ({"stage_delay_ms": 1e300}, r"stage_delay_ms is 1e\+300; it must be at most 86400000"),
        ({"remote_delay_ms": 1e300}, r"remote_delay_ms is 1e\+300; it must be at most 86400000"),
        ({"remote_mb_per_s": float("inf")}, "remote_mb_per_s is inf; it must be at most 1000000"),
        ({"overhead": "guessed"}, "unknown overhead 'guessed'; known: none, counted, measured"),
        ({"search_steps_per_ms": 0}, "search_steps_per_ms is 0"),
    ],
)
def test_impossible_scenario_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        scenario(**changes)


def test_an_unknown_setting_is_refused_with_advice() -> None:
    assert setting("strict-light") is SETTINGS["strict-light"]
    with pytest.raises(Rejected, match=r"unknown setting.*did you mean 'strict-light'"):
        setting("strict-ligth")


def test_slos_are_multiples_of_the_time_alone_in_the_full_catalog() -> None:
    """Also where the minimum config itself is not left."""
    for changes in ({}, {"gpu_sharing": False}, {"batching": False, "vcpus": 4}):
        seen = applied(paper(), scenario(slo_scale=0.8, **changes))
        for name, application in paper().applications.items():
            assert seen.applications[name].slo_us == round(0.8 * application.alone_us)


def test_slos_stay_as_they_are_unless_scaled() -> None:
    seen = applied(paper(), scenario(slo_scale=None))
    for name, application in paper().applications.items():
        assert seen.applications[name].slo_us == application.slo_us


def test_catalog_of_a_scenario_has_only_configs_that_fit_a_node() -> None:
    seen = applied(paper(), scenario(vcpus=3, vgpus=2, batching=False))
    for name, function in paper().functions.items():
        configs = seen.functions[name].profile.configs
        assert configs == tuple(
            config
            for config in function.profile.configs
            if config.vcpus <= 3 and config.vgpus <= 2 and config.batch == 1 and not config.kind
        )
        for config in configs:
            assert seen.functions[name].profile.time_us_of(config) == function.profile.time_us_of(
                config
            )


def test_the_cluster_is_the_scenarios() -> None:
    cluster = applied(paper(), scenario(nodes=3, vcpus=8, vgpus=4)).cluster
    assert (cluster.nodes, cluster.vcpus, cluster.vgpus) == (3, 8, 4)


def test_a_function_that_fits_no_node_is_refused() -> None:
    detect = SMALL.functions["detect"]
    times_us = {Config(1, 2, 1): 100, Config(2, 1, 2): 100}
    demanding = replace(detect, profile=Profile.of("detect", times_us, PRICES))
    stage = Stage("detect", demanding)
    catalog = replace(
        SMALL,
        functions={"detect": demanding},
        applications={"scan": Application.of("scan", [stage], slo_us=1000)},
    )
    assert applied(catalog, scenario(vcpus=2, vgpus=1)).functions
    for vcpus, vgpus in ((1, 1), (1, 2)):
        with pytest.raises(Rejected, match=r"detect: no config fits a node.*; use larger nodes"):
            applied(catalog, scenario(vcpus=vcpus, vgpus=vgpus))
