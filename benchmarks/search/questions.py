"""What the engines are asked: applications, and seeded questions as they occur in operation.

Three questions of four are about the first stage, where planning is hardest; the others are about
a random later one, when the stages before it have used their part of the SLO. The queue holds 1 to
8 jobs, and 0 to 30 % of the time that should be left has passed in waiting.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from esg.core.catalog.model import Application, Catalog, Function, Stage
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.profile_model import Grid, TimeModel
from esg.core.catalog.shipped import DEFAULT

SETTINGS = {"strict": 0.8, "moderate": 1.0, "relaxed": 1.2}
"""The SLO as a multiple of L, the time of the application alone at the minimum config."""

KS = (1, 5, 20, 80)
SEED = 2024
MAX_QUEUE = 8
MAX_WAITED = 0.3
FIRST_STAGE_SHARE = 0.75

GRIDS = {
    16: Grid(batch=(1, 2, 4, 8), vcpus=(1, 4), vgpus=(1, 4)),
    64: Grid(batch=(1, 2, 4, 8), vcpus=(1, 2, 4, 8), vgpus=(1, 2, 4, 7)),
    256: Grid(batch=range(1, 9), vcpus=(1, 2, 3, 4, 6, 8, 12, 16), vgpus=(1, 2, 4, 7)),
    1024: Grid(batch=range(1, 9), vcpus=range(1, 17), vgpus=range(1, 9)),
}
"""Configs per function, from coarse to fine; 256 is the grid of the shipped profiles."""


@dataclass(frozen=True, slots=True)
class Question:
    """One decision: which config for the `queue` jobs at `stage`, `left_us` before the deadline?"""

    application: Application
    stage: str
    queue: int
    left_us: int

    @property
    def is_first(self) -> bool:
        return self.stage == self.application.root

    @property
    def left_share(self) -> float:
        """The time left to a first stage, as a share of L."""
        return self.left_us / self.application.alone_us

    def __str__(self) -> str:
        return (
            f"{self.application.name}, stage {self.stage}, "
            f"queue {self.queue}, {self.left_us} us left"
        )


def questions(
    applications: Sequence[Application],
    scale: float,
    count: int,
    *,
    first_share: float = FIRST_STAGE_SHARE,
) -> list[Question]:
    """Seeded questions about some applications in turn; only `left_us` depends on the setting."""
    onward_us = [_alone_onward_us(application) for application in applications]
    asked = []
    for number in range(count):
        which = number % len(applications)
        application = applications[which]
        draw = Random(f"{SEED}:{application.name}:{number}")
        later = list(application.stages)[1:]
        at_first = not later or draw.random() < first_share
        stage = application.root if at_first else draw.choice(later)
        queue = draw.randint(1, MAX_QUEUE)
        waited = draw.uniform(0, MAX_WAITED)
        left_us = round(scale * onward_us[which][stage] * (1 - waited))
        asked.append(Question(application, stage, queue, left_us))
    return asked


def warm_up(applications: Sequence[Application], scale: float) -> list[Question]:
    """Every stage with every length of queue, so that whatever is built on first use is built."""
    return [
        Question(application, stage, queue, round(scale * onward_us))
        for application in applications
        for stage, onward_us in _alone_onward_us(application).items()
        for queue in range(1, MAX_QUEUE + 1)
    ]


def _alone_onward_us(application: Application) -> dict[str, int]:
    """From each stage on, the time of the pipeline alone at the minimum config."""
    onward: dict[str, int] = {}
    for name in reversed(list(application.stages)):
        profile = application.stages[name].function.profile
        after = max((onward[follower] for follower in application.successors[name]), default=0)
        onward[name] = profile.time_us_of(profile.minimum) + after
    return onward


def chain(name: str, functions: Sequence[Function], length: int) -> Application:
    """A chain of any length that goes round the given functions."""
    names = [f"{i + 1}-{functions[i % len(functions)].name}" for i in range(length)]
    stages = [
        Stage(names[i], functions[i % len(functions)], tuple(names[max(0, i - 1) : i]))
        for i in range(length)
    ]
    return Application.of(name, stages)


def diamond(catalog: Catalog) -> Application:
    """A split with a join: what is sharpened is segmented and measured for depth, then judged."""
    sharpen, segment, measure, judge = (
        catalog.function(name)
        for name in ("super-resolution", "segmentation", "depth", "classification")
    )
    stages = [
        Stage("sharpen", sharpen),
        Stage("segment", segment, ("sharpen",)),
        Stage("measure", measure, ("sharpen",)),
        Stage("judge", judge, ("segment", "measure")),
    ]
    return Application.of("diamond", stages)


def regridded(application: Application, grid: Grid, prices: Prices) -> Application:
    """The same application with its shipped functions modelled on another grid."""
    stages = []
    for stage in application.stages.values():
        name = stage.function.name
        profile = Profile.of(name, _model(name).times_us(grid), prices)
        stages.append(replace(stage, function=replace(stage.function, profile=profile)))
    return Application.of(application.name, stages)


def _model(function: str) -> TimeModel:
    """The parameters that a shipped profile gives its model."""
    table = tomllib.loads((DEFAULT.parent / f"{function}.toml").read_text("utf-8"))["model"]
    del table["relative_std"]
    return TimeModel(**table)
