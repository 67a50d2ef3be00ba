"""Why not cheaper? From the floor of the cost to what can be had, one step at a time.

    1. floor: the cheapest plan within the SLO, every batch full at once, in its profiled time;
    2. fetched: inputs have to be read, which takes time and is paid for;
    3. safe: and with a margin for the spread of times, so that deadlines are met;
    4. patient: and a job waits for a batch, for as long as it takes on average until the next
       request for its application comes, and goes in pairs; or alone, where that is cheaper.

All of them are means over the applications, per job, over the cost of ESG's choice without noise:
the cheapest plan in which every job goes alone, fetching included.
"""

from bisect import bisect_right
from statistics import fmean

from esg.core.catalog.model import Application, Catalog
from esg.core.durations import DurationSettings
from esg.core.policies.apex.batch_aware import BatchPlans
from esg.core.policies.apex.forecast import Forecast, onward
from esg.emulator.scenario import SETTINGS
from esg.units import NEVER_PUSD
from esg.workload.arrivals import RATES_US

STEPS = ("floor", "fetched", "safe", "patient")


def floors(catalog: Catalog, setting: str) -> dict[str, float]:
    """The steps for one of the paper's settings, as shares of ESG's cost."""
    chosen = SETTINGS[setting]
    interval_us = round(fmean(RATES_US[chosen.rate])) * len(catalog.applications)
    costs: dict[str, list[float]] = {name: [] for name in (*STEPS, "alone")}
    for application in catalog.applications.values():
        plans, root = BatchPlans(application), application.root
        slo_us = round(chosen.slo_scale * application.alone_us)
        pace = (
            1
            + _fetched_us(application)
            / plans.search(root, jobs=1, cohort_size=1, left_us=slo_us, k=1).plans[0].time_us
        )
        expected = Forecast(pace, _spread(application))

        def pusd(jobs: int, left_us: int, *, plans: BatchPlans = plans, root: str = root) -> int:
            times_us, costs_pusd = plans.stairs(root, jobs)
            place = bisect_right(times_us, left_us)
            return costs_pusd[place - 1] if place else NEVER_PUSD

        safe_us = expected.safe_us(slo_us)
        later_us = safe_us - expected.likely_us(interval_us)
        costs["alone"].append(pace * pusd(1, expected.likely_us(slo_us)))
        costs["floor"].append(pusd(plans.most, slo_us))
        costs["fetched"].append(pace * pusd(plans.most, expected.likely_us(slo_us)))
        costs["safe"].append(pace * pusd(plans.most, safe_us))
        costs["patient"].append(pace * min(pusd(2, later_us), pusd(1, safe_us)))
    alone = fmean(costs["alone"])
    return {name: fmean(costs[name]) / alone for name in STEPS}


def _fetched_us(application: Application) -> int:
    local = DurationSettings().local
    return sum(local.time_us(stage.function.input_bytes) for stage in application.stages.values())


def _spread(application: Application) -> float:
    parts = [share * std for _, std, share in onward(application, application.root)]
    return float(sum(part**2 for part in parts) ** 0.5)
