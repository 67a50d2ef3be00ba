"""Could anybody be in time for less? The best that there is for jobs that go alone.

    .venv/bin/python -m benchmarks.apex.alone [--setting strict-light]

Where deadlines are tight there is no time to wait for a batch, so what is left to decide is the
config of each stage, knowing how long the stages before it took. That can be solved exactly, from
the last stage to the first: for every time that may be left, the config with the least expected
cost, where being late counts as so many requests that have to be paid for. No policy that lets jobs
go alone can be in time as often for less, on however many nodes: this one knows how times are
distributed, and there is always room.

ESG is reckoned the same way, with its own choice of configs; costs are over its.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.durations import DurationSettings
from esg.core.search.frontier import Frontier
from esg.emulator.scenario import SETTINGS

Floats = npt.NDArray[np.float64]

STEP_US = 500
"""How finely the time left is told apart."""

LATE = (0.03, 0.1, 0.3, 1, 3, 10)
"""What a late request counts, in requests that have to be paid for."""

DRAWS, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
"""A normal distribution as a few draws (Gauss and Hermite's quadrature)."""


@dataclass(slots=True)
class Outcome:
    """Expected cost, and the chance to be late, by the time that is left."""

    cost_pusd: Floats
    late: Floats


Choose = Callable[[Stage, list[Outcome]], list[int]]
"""Which of a stage's configs to take, for every time left, by what comes of each."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.apex.alone",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--setting", default="strict-light", choices=list(SETTINGS))
    setting = parser.parse_args().setting
    catalog = on_its_cluster(load_catalog())
    table = Table("a late request counts", "in time", "cost / esg", title=f"alone, {setting}")
    esg = expected(catalog, setting, late=None)
    table.add_row("esg", f"{1 - esg[1]:.2%}", "1")
    for late in LATE:
        cost, chance = expected(catalog, setting, late=late)
        table.add_row(f"{late:g}", f"{1 - chance:.2%}", f"{cost / esg[0]:.4f}")
    Console().print(table)


def expected(catalog: Catalog, setting: str, *, late: float | None) -> tuple[float, float]:
    """Cost per request in picodollars, and the share that is late; of ESG if nothing is said about
    what being late counts."""
    found = []
    for application in catalog.applications.values():
        slo_us = round(SETTINGS[setting].slo_scale * application.alone_us)
        left_us = np.arange(-slo_us, slo_us + STEP_US, STEP_US, dtype=np.float64)
        choose = _as_esg(application, left_us) if late is None else _best(application, late)
        outcome = _of_chain(application, left_us, choose)
        at_slo = [
            np.interp(slo_us, left_us, values) for values in (outcome.cost_pusd, outcome.late)
        ]
        found.append(at_slo)
    cost_pusd, chance = np.mean(found, axis=0).tolist()
    return cost_pusd, chance


def _best(application: Application, late: float) -> Choose:
    cheapest = [s.function.profile.job_cost_pusd.min() for s in application.stages.values()]
    late_pusd = late * float(sum(cheapest))

    def choose(stage: Stage, outcomes: list[Outcome]) -> list[int]:
        prices = [o.cost_pusd + late_pusd * o.late for o in outcomes]
        return [int(place) for place in np.argmin(prices, axis=0)]

    return choose


def _as_esg(application: Application, left_us: Floats) -> Choose:
    engine = Frontier(application)

    def choose(stage: Stage, outcomes: list[Outcome]) -> list[int]:
        configs = _alone(stage)
        chosen = []
        for left in left_us.tolist():
            plan = engine.cheapest(stage.name, queue=1, left_us=int(left))
            # whoever is lost goes as cheaply as possible
            plan = plan or engine.cheapest(stage.name, queue=1, left_us=2**50)
            assert plan is not None
            chosen.append(configs.index(plan.config))
        return chosen

    return choose


def _alone(stage: Stage) -> list[Config]:
    return [config for config in stage.function.profile.configs if config.batch == 1]


def _of_chain(application: Application, left_us: Floats, choose: Choose) -> Outcome:
    """From the last stage to the first; there are no branches in the paper's applications."""
    after: Outcome | None = None
    for stage in reversed(application.stages.values()):
        profile, fetch_us = stage.function.profile, _fetch_us(stage)
        outcomes = []
        for config in _alone(stage):
            index = profile.index(config)
            time_us = float(profile.time_us[index])
            usd_per_us = float(profile.job_cost_pusd[index]) / time_us
            spread_us = time_us * profile.relative_std
            own_pusd = np.full(len(left_us), usd_per_us * (time_us + fetch_us))
            spare_us = left_us - fetch_us - time_us
            outcomes.append(_then(own_pusd, spare_us, spread_us, left_us, after))
        chosen = choose(stage, outcomes)
        rows = np.arange(len(left_us))
        after = Outcome(
            np.array([o.cost_pusd for o in outcomes])[chosen, rows],
            np.array([o.late for o in outcomes])[chosen, rows],
        )
    assert after is not None
    return after


def _then(
    own_pusd: Floats, spare_us: Floats, spread_us: float, left_us: Floats, after: Outcome | None
) -> Outcome:
    """What comes of a config: its own cost, and what comes of the time that it leaves over."""
    if after is None:
        sigmas = spare_us / spread_us
        return Outcome(own_pusd, np.array([erfc(s / sqrt(2)) / 2 for s in sigmas.tolist()]))
    cost_pusd, late = own_pusd.copy(), np.zeros(len(left_us))
    for draw, weight in zip(DRAWS, WEIGHTS / WEIGHTS.sum(), strict=True):
        then_us = spare_us - spread_us * draw
        cost_pusd += weight * np.interp(then_us, left_us, after.cost_pusd)
        late += weight * np.interp(then_us, left_us, after.late)
    return Outcome(cost_pusd, late)


def _fetch_us(stage: Stage) -> int:
    return DurationSettings().local.time_us(stage.function.input_bytes)


if __name__ == "__main__":
    main()
