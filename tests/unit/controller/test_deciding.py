"""What a controller is told about decisions reaches its scheduler."""

from dataclasses import fields, replace
from typing import Any

import pytest

from esg.controller.durability.recovery import deciding
from esg.core.scheduler.settings import SchedulerSettings
from esg.runtime.settings import ControllerSettings

OTHER: dict[str, tuple[Any, Any]] = {
    "policy": ("orion", "orion"),
    "k": (7, 7),
    "group_size": (2, 2),
    "engine": ("astar", "astar"),
    "without": ("risk, holding", ("risk", "holding")),
    "prewarm": (False, False),
    "follow_profiles": (False, False),
    "max_attempts": (9, 9),
    "retry_pause_ms": (1.5, 1500),
    "recheck_rounds": (1, 1),
    "recheck_interval_ms": (0.1, 100),
    "max_wait_s": (7, 7_000_000),
    "max_waiting": (8, 8),
    "max_waiting_in_all": (9, 9),
    "fair_quantum_ms": (5, 5000),
}


@pytest.mark.parametrize("name", OTHER)
def test_a_controllers_setting_becomes_the_schedulers(name: str) -> None:
    told, expected = OTHER[name]
    usual = deciding(ControllerSettings())
    same = name in {f.name for f in fields(usual)}
    name_there = name if same else f"{name.rpartition('_')[0]}_us"
    changed = deciding(replace(ControllerSettings(), **{name: told}))
    assert getattr(usual, name_there) != expected
    assert changed == replace(usual, **{name_there: expected})


def test_settings_that_both_have_have_the_same_defaults() -> None:
    """Where live meshes differ from the paper's emulated ones, that is meant."""
    usual, live = SchedulerSettings(), deciding(ControllerSettings())
    assert {f.name for f in fields(usual) if getattr(usual, f.name) != getattr(live, f.name)} == {
        "policy",
        "follow_profiles",
        "max_wait_us",
        "max_waiting",
        "max_waiting_in_all",
        "fair_quantum_us",
    }
