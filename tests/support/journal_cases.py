"""Journals of emulated runs, whole or without their beginning, and their emulation again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from esg.core.journal.format import read_entries, snapshot_line
from esg.core.journal.replay import replay
from esg.core.messages.codec import to_text
from esg.core.scheduler.scheduler import build_scheduler
from esg.emulator.history import Recorded, catalog_of, scenario_of
from esg.emulator.run import Emulation, emulate
from esg.emulator.scenario import Scenario
from esg.emulator.sweep import Generated
from esg.workload.plan import Workload
from tests.support.emulated_runs import paper, scenario
from tests.support.sealed import plain, sealed

FIFTY = Generated(Workload(rate="heavy", requests=50))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Emulation]:
    path = tmp_path_factory.mktemp("journals") / "run.journal"
    return path, record(path, scenario(nodes=3))


def record(path: Path, conditions: Scenario) -> Emulation:
    with path.open("w", encoding="utf-8") as file:
        arrivals = FIFTY.arrivals(list(paper().applications), conditions.seed)
        return emulate(paper(), conditions, arrivals, journal=file)


def again(path: Path, **changes: Any) -> Emulation:
    conditions = replace(scenario_of(path), **changes)
    source = Recorded(journal=path, keep_slos="slo_scale" not in changes)
    return emulate(paper(), conditions, source.arrivals(list(paper().applications), 0))


def from_the_middle(path: Path, rest: Path, after: int) -> Path:
    """The journal without so many of its first entries: what was known by then is a snapshot."""
    header, *entries = plain(path)
    conditions = scenario_of(path)
    scheduler = build_scheduler(catalog_of(path, paper(), conditions), conditions)
    replay(scheduler, read_entries(entries[:after]))
    snapshot = snapshot_line(to_text(scheduler.state), "{}", 0)
    rest.write_bytes(sealed([header, snapshot, *entries[after:]]))
    return rest
