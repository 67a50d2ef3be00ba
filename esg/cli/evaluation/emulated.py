"""What the options of `esg emulate` ask for, as a study and in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from esg.cli.evaluation.emulate_options import EmulateOptions
from esg.cli.evaluation.study import PolicyStudy
from esg.console.arrivals import ArrivalOptions
from esg.console.catalog import read_catalog
from esg.console.conditions import conditions, what_has_no_effect
from esg.console.formatting import counted, joined
from esg.core.catalog.model import Catalog
from esg.emulator.sweep import Generated
from esg.errors import Rejected
from esg.workload.plan import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """A study, with the options that ask for it and its load."""

    options: EmulateOptions
    load: Workload
    study: PolicyStudy

    @staticmethod
    def of(
        options: EmulateOptions,
        arrivals: ArrivalOptions,
        catalog: Path | None,
        read: Callable[[Path | None], Catalog] = read_catalog,
    ) -> "Emulated":
        """The study that such options ask for."""
        options, arrivals = options.settled(arrivals)
        seeds = options.all_seeds
        load = arrivals.workload(seeds[0])
        known = read(catalog)
        scenario = options.scenario(known)
        extent = load.extent()
        too_slow = load.rate is not None and not extent.requests
        if too_slow and replace(load, rate=None).extent().requests:
            raise Rejected(
                f"{load.trace}: no request comes at the rate {load.rate}; give a higher one"
            )
        study = PolicyStudy(
            catalog=known,
            scenario=scenario,
            policies=options.policies,
            seeds=seeds,
            load=Generated(load),
            requests=extent.requests,
            duration_s=extent.duration_s,
            file=load.trace or load.saved,
        )
        return Emulated(options=options, load=load, study=study)

    @property
    def notes(self) -> list[str]:
        """About options that change nothing."""
        given = self.options.without_effect_on_some
        return what_has_no_effect(given, self.study.policies, self.study.scenario)

    def document(self) -> dict[str, Any]:
        load = self.load
        return {
            "name": self.options.setting,
            **load.document(),
            "mix": load.mix,
            "format": None if load.trace is None else load.format or "auto",
            "requests": load.requests,
            "duration_s": load.duration_s,
            **conditions(self.study.scenario),
        }

    def heading(self, came: int, seeds: Sequence[int]) -> str:
        """In words. A trace may have ended before as many came as were asked for."""
        named = f"{self.options.setting}: " if self.options.setting else ""
        return f"{named}{_load_text(self.load, came)}; {seeds_text(seeds)}."


def _load_text(load: Workload, came: int) -> str:
    count = counted(came, "request")
    if load.duration_s is not None:
        count += f" within {load.duration_s:g} s"
    if load.saved is not None:
        return f"{count} as in {load.saved}"
    if load.trace is None:
        how = {"steady": "", "poisson": ", Poisson", "burst": ", in bursts"}[load.pattern]
        return f"{count} at the rate {load.rate}{how}"
    return f"{count} as in {load.trace}" + (f", scaled to {load.rate}" if load.rate else "")


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds in words; some may be missing after an interrupt.

    >>> seeds_text([3]), seeds_text([0, 1, 2]), seeds_text([0, 2])
    ('seed 3', 'seeds 0 to 2', 'seeds 0 and 2')
    """
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if all(after == before + 1 for before, after in pairwise(seeds)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seeds {joined(map(str, seeds))}"
