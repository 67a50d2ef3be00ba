"""Emulated runs for tests. The same run is done once, however many tests ask about it."""

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.catalog.profile import Profile
from esg.core.messages.commands import Command, StartTask, WarmInstance
from esg.core.messages.events import Event, RequestArrived, TaskFinished
from esg.core.policies.settings import Trained
from esg.core.scheduler.invariants import AnswerBook
from esg.emulator.optimum import OptimumBounds
from esg.emulator.run import Emulation, emulate
from esg.emulator.scenario import Scenario, applied, setting
from esg.emulator.sweep import Generated, SweepRun, run_limits
from esg.emulator.training.train import Budget, train
from esg.workload.plan import Workload


@dataclass
class Seen:
    """What there was to see of a run."""

    started: list[StartTask] = field(default_factory=list)
    started_us: dict[str, int] = field(default_factory=dict)
    ended_us: dict[str, int] = field(default_factory=dict)
    warmed: list[WarmInstance] = field(default_factory=list)
    arrived: list[tuple[int, str]] = field(default_factory=list)
    book: AnswerBook = field(default_factory=AnswerBook)

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, RequestArrived):
            self.arrived.append((now_us, event.request))
        if isinstance(event, TaskFinished):
            self.ended_us[event.task] = now_us
        self.book.note(commands)
        for command in commands:
            if isinstance(command, StartTask):
                self.started.append(command)
                self.started_us[command.order.task] = now_us
            elif isinstance(command, WarmInstance):
                self.warmed.append(command)


@dataclass
class Ran:
    emulation: Emulation
    seen: Seen

    @property
    def summary(self) -> dict[str, Any]:
        return self.emulation.summary()


@cache
def paper() -> Catalog:
    return load_catalog()


@cache
def smallest() -> Catalog:
    """The paper's catalog with the minimum config alone, and all the time in the world."""
    full = paper()
    functions = {
        name: replace(function, profile=_minimum(function.profile))
        for name, function in full.functions.items()
    }
    applications = {
        name: Application.of(
            name,
            [
                Stage(s.name, functions[s.function.name], s.after)
                for s in application.stages.values()
            ],
            slo_scale=10,
        )
        for name, application in full.applications.items()
    }
    return replace(full, functions=functions, applications=applications)


def _minimum(profile: Profile) -> Profile:
    return profile.narrowed(profile.minimum.__eq__)


def scenario(name: str = "relaxed-heavy", **changes: Any) -> Scenario:
    """A paper's setting on a paper's cluster, with changes."""
    usual = {"slo_scale": setting(name).slo_scale, "nodes": 16, "vcpus": 16, "vgpus": 7}
    return Scenario(**(usual | changes))


@cache
def learnt(name: str) -> Trained:
    """What aquatope knows after the shortest of trainings."""
    budget = Budget(bootstrap=20, rounds=2, candidates=50)
    return {
        application.name: train(application, np.random.default_rng(0), budget=budget)
        for application in applied(paper(), scenario(name)).applications.values()
    }


@cache
def run(name: str = "relaxed-heavy", *, requests: int = 300, **changes: Any) -> Ran:
    conditions = scenario(name, **changes)
    if conditions.policy == "aquatope":
        conditions = replace(conditions, trained=learnt(name))
    return run_on(
        paper(), conditions, Generated(Workload(rate=setting(name).rate, requests=requests))
    )


def run_on(catalog: Catalog, conditions: Scenario, load: Generated) -> Ran:
    seen = Seen()
    arrivals = load.arrivals(list(catalog.applications), conditions.seed)
    emulation = emulate(catalog, conditions, arrivals, observe=seen.observe)
    return Ran(emulation, seen)


def limits(name: str, requests: int, **changes: Any) -> OptimumBounds:
    load = Generated(Workload(rate=setting(name).rate, requests=requests))
    return OptimumBounds(
        **run_limits(SweepRun("", paper(), scenario(name, **changes), load)).summary
    )
