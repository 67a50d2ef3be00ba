"""Aquatope: configs that were learnt offline, and are never revised.

Bayesian optimisation finds the configs before deployment, once per application (paper, section
"Comparison Counterparts"; here `esg.emulator.training.train`, or `esg train`). All that is left
to do is to look them up. The rest is common ground: queues are visited round-robin and
placement is the same as ESG's.

In training an application runs alone, and every batch is full. In deployment fewer jobs may wait
than the learnt batch takes. Then the plan *misses*, which is counted: the stage runs with what is
there, on the learnt vCPUs and vGPUs, although a smaller batch could do with less. Nothing waits for
a batch to fill, and there is no second plan if the first fits nowhere.

Caveats: configs are learnt for the SLO of the application; if a request brings another one of its
own, that is not looked at. Where slices of a learnt kind are gone, the minimum config has to do.
"""

from collections.abc import Iterable, Mapping

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog
from esg.core.policies.baselines import plan_onward, round_robin, with_what_is_there
from esg.core.policies.interface import Offer, Placement, QueueView
from esg.core.policies.placement import anywhere, locality_first
from esg.core.policies.settings import Trained
from esg.core.search.plan import Plan
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Queue
from esg.errors import Rejected

NODES_PER_MS = 1_000
"""Look-ups in a millisecond: one takes 0.7 us in CPython. The paper calls this negligible."""

EFFORT = 1
"""A decision is one look-up."""

Learnt = Mapping[str, Config]
"""One config for each stage of an application."""


class Aquatope:
    """A static table. For each stage it has one plan per number of waiting jobs, from one job to
    the learnt batch; the last of them is the learnt plan, and taking any other is a miss."""

    prewarm_all_stages = False

    def __init__(self, catalog: Catalog, trained: Trained, *, locality: bool = True) -> None:
        self.search_steps_per_ms = NODES_PER_MS
        self._place = locality_first if locality else anywhere
        self._plans: dict[tuple[str, str], list[Plan]] = {}
        for application in catalog.applications.values():
            learnt = _checked(catalog, application, trained)
            for stage in application.stages:
                self._plans[application.name, stage] = [
                    _plan(application, learnt, stage, waiting)
                    for waiting in range(1, learnt[stage].batch + 1)
                ]

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        return round_robin(queues)

    def decide(self, view: QueueView) -> Offer:
        plans = self._plans[view.application.name, view.stage.name]
        waiting = len(view.jobs)
        missed = waiting < len(plans)
        return Offer((plans[waiting - 1] if missed else plans[-1],), EFFORT, missed)

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        return self._place(view, offer, nodes)


def _checked(catalog: Catalog, application: Application, trained: Trained) -> Learnt:
    """What was learnt for an application, if that is a config of its own for every stage."""
    learnt = {
        name: _minimum(application, name)
        if _is_gone(catalog, application, name, config)
        else config
        for name, config in trained.get(application.name, {}).items()
    }
    missing = [stage for stage in application.stages if stage not in learnt]
    if missing:
        raise Rejected(
            f"aquatope: nothing was learnt for {application.name!r} (stage {missing[0]!r}); train "
            "with a catalog that has it: `esg train FILE` makes what controller.trained names"
        )
    for stage in application.stages.values():
        try:
            stage.function.profile.index(learnt[stage.name])
        except Rejected as error:
            raise Rejected(
                f"aquatope: what was learnt for {application.name!r} is of another catalog: "
                f"{error}; train again with this one"
            ) from None
    return learnt


def _is_gone(catalog: Catalog, application: Application, stage: str, config: Config) -> bool:
    """Whether the catalog knows slices of that kind, and there are none."""
    found = application.stages.get(stage)
    if found is None or config.kind not in catalog.kinds:
        return False
    return config.kind not in found.function.profile.kinds


def _minimum(application: Application, stage: str) -> Config:
    return application.stages[stage].function.profile.minimum


def _plan(application: Application, learnt: Learnt, stage: str, waiting: int) -> Plan:
    """The current stage with what is there, then all that come after it as learnt."""
    profile = application.stages[stage].function.profile
    now = with_what_is_there(profile, learnt[stage], waiting)
    return plan_onward(application, stage, {**learnt, stage: now})
