"""Plans that follow what tasks take, in runs: journaled, replayed, and lived through again."""

from dataclasses import replace
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from esg.core.messages.commands import Command, StartTask
from esg.core.messages.events import Correction, Event, ProfilesCorrected, TaskFinished
from esg.emulator.history import Recorded, exogenous, replay_strictly
from esg.emulator.run import Emulation, emulate
from esg.emulator.scenario import Scenario
from esg.emulator.sweep import Generated
from esg.runtime.journal_files import read_journal
from esg.workload.plan import Workload
from tests.support.emulated_runs import paper, scenario

LOAD = Generated(Workload(rate="light", requests=150))
SLOW = scenario(nodes=4, stage_delay_ms=40, slo_scale=2.0)
"""Every stage takes 40 ms more than profiled."""


class Watch:
    """What tasks took, as a multiple of what was predicted; and all corrections."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self.corrections: list[ProfilesCorrected] = []
        self._started: dict[str, tuple[int, int]] = {}

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, ProfilesCorrected):
            self.corrections.append(event)
        if isinstance(event, TaskFinished):
            started_us, predicted_us = self._started[event.task]
            self.took.append((now_us - started_us) / predicted_us)
        for command in commands:
            if isinstance(command, StartTask):
                self._started[command.order.task] = now_us, command.order.predicted_us


@cache
def ran(conditions: Scenario) -> tuple[Watch, str, Emulation]:
    watch, journal = Watch(), StringIO()
    arrivals = LOAD.arrivals(list(paper().applications), conditions.seed)
    emulation = emulate(paper(), conditions, arrivals, journal=journal, observe=watch.observe)
    return watch, journal.getvalue(), emulation


def following(conditions: Scenario) -> Scenario:
    return replace(conditions, follow_profiles=True)


def test_predictions_come_close_to_what_tasks_take() -> None:
    watch, _, _ = ran(following(SLOW))
    blind, _, _ = ran(SLOW)
    assert np.median(blind.took[-100:]) > 1.1
    assert np.median(watch.took[-100:]) == pytest.approx(1, abs=0.05)


def test_corrections_do_not_feed_on_themselves() -> None:
    """What tasks take is compared with the profile, not with what was last believed."""
    watch, _, _ = ran(following(SLOW))
    for event in watch.corrections:
        assert all(1_000_000 < correction.pace_ppm < 1_700_000 for correction in event.corrections)


def test_a_mesh_that_is_as_profiled_is_left_alone() -> None:
    watch, _, _ = ran(following(scenario(nodes=4)))
    assert watch.corrections == []


def test_a_run_with_corrections_replays_to_the_same_orders(tmp_path: Path) -> None:
    watch, journal, emulation = ran(following(SLOW))
    assert watch.corrections
    path = tmp_path / "run.journal"
    path.write_text(journal, "utf-8")
    assert replay_strictly(path, paper()).digest == emulation.digest


def test_a_what_if_hears_of_corrections_when_they_were_made(tmp_path: Path) -> None:
    watch, journal, _ = ran(following(SLOW))
    path = tmp_path / "run.journal"
    path.write_text(journal, "utf-8")
    events = [event for _, event in exogenous(read_journal(path), keep_slos=True)]
    assert [event for event in events if isinstance(event, ProfilesCorrected)] == watch.corrections


def test_a_what_if_of_an_emulated_run_finds_the_same_corrections_once(tmp_path: Path) -> None:
    conditions = following(SLOW)
    watch, journal, emulation = ran(conditions)
    assert watch.corrections
    path = tmp_path / "run.journal"
    path.write_text(journal, "utf-8")
    again = Recorded(journal=path, keep_slos=True).arrivals(list(paper().applications), 0)
    assert emulate(paper(), conditions, again).digest == emulation.digest


@pytest.mark.parametrize("policy", ["esg", "infless"])
def test_a_what_if_lives_in_the_world_as_it_was_found(policy: str) -> None:
    """Whoever plans: functions take what they took on the day that is lived through again."""
    slow = ProfilesCorrected(
        corrections=tuple(
            Correction(function=name, batch=1, pace_ppm=3_000_000) for name in paper().functions
        )
    )
    conditions = scenario(nodes=4, slo_scale=4.0, noise=0, stage_delay_ms=0, policy=policy)
    arrivals = LOAD.arrivals(list(paper().applications), 0)
    emulated = emulate(paper(), conditions, chain([(0, slow)], arrivals)).summary()
    usual = emulate(paper(), conditions, LOAD.arrivals(list(paper().applications), 0)).summary()
    assert emulated["cost_usd_per_1k_requests"] > 2 * usual["cost_usd_per_1k_requests"]
    assert emulated["latency_ms"]["p50"] > 2 * usual["latency_ms"]["p50"]
