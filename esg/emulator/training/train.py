"""Aquatope's offline training: the config of every stage, learnt once per application.

Before deployment, Aquatope runs an application many times, alone, with configs that Bayesian
optimisation suggests (`bayesian`), and keeps the cheapest ones that met the SLO (paper, section
"Comparison Counterparts"). Here a run is played from the profiles: every stage takes its profiled
time with the noise of its profile, latency is the longest path, and a job pays its share.

What is tried is a point in the unit cube, three dimensions per stage: batch, vCPUs and vGPUs. Each
coordinate is a place on the scale of the values that its stage's profile has, in rising order; a
cell that the profile lacks stands for the nearest one that it has:

    batch 1    batch 2    batch 4    batch 8
    0 ... .25 .... .5 ..... .75 ....... 1        0.6 is batch 4

Caveats, all on purpose. Runs have full batches, whatever load there will be: a batch is as good as
it is cheap, which is why plans miss later. Runs are alone: there is no queueing, no cold start and
no transfer of data in them. And the SLO is to be met on average, not by most runs.

Learning takes seconds per application, so what was learnt is kept in a cache, under a key of all
that it depends on. A file there that is damaged, or is not what its name says, is written anew.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog
from esg.core.catalog.profile import Profile
from esg.core.messages.codec import decode, digest, encode, to_text
from esg.emulator.worker_processes import each, tell
from esg.errors import Rejected

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Progress = Callable[[str, int, int], None]
"""Hears the application, how many runs are done, and of how many."""

METHOD = 1
"""Part of every key; raise it whenever a change makes training come to other results."""

SHORTEST_RUN = 0.05
"""No run is shorter than this share of its profiled time, as in `durations`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much is tried, and how much thought is given to it. The first three are the paper's.

    A fit is tuned every `tune_every` rounds, since that is what takes the time. The points to try
    are the best of `candidates`, by the average over `draws` of what is uncertain.
    """

    bootstrap: int = 100
    rounds: int = 50
    per_round: int = 5
    tune_every: int = 10
    candidates: int = 1000
    draws: int = 16

    @property
    def trials(self) -> int:
        return self.bootstrap + self.rounds * self.per_round


class StageCube:
    """The configs of one stage as cells of a unit cube: of batch, vCPUs and vGPUs, and where there
    are several kinds of slices, of these, from cheap to dear."""

    def __init__(self, profile: Profile, dimensions: int) -> None:
        cells = [
            (*config[:3], profile.kinds.index(config.kind))[:dimensions]
            for config in profile.configs
        ]
        scales = [sorted(set(values)) for values in zip(*cells, strict=True)]
        self._sizes = np.array([len(scale) for scale in scales])
        ranks = [
            [scale.index(value) for scale, value in zip(scales, cell, strict=True)]
            for cell in cells
        ]
        self.centres: Floats = (np.array(ranks) + 0.5) / self._sizes
        points = (np.array(list(np.ndindex(*self._sizes))) + 0.5) / self._sizes
        self._places = np.array([self._nearest(point) for point in points])

    def places(self, points: Floats) -> Places:
        """Where in the profile the configs of some points are."""
        ranks = np.minimum(points * self._sizes, self._sizes - 1).astype(np.intp)
        places: Places = self._places[np.ravel_multi_index(tuple(ranks.T), tuple(self._sizes))]
        return places

    def _nearest(self, cell: Floats) -> int:
        """Of several that are equally near, the first in the order of the profile."""
        distances = ((self.centres - cell) ** 2).sum(axis=1)
        return int(distances.round(9).argmin())


class LoneRuns:
    """An application that runs alone, as a problem for `bayesian`."""

    def __init__(self, application: Application) -> None:
        self._application = application
        profiles = {name: stage.function.profile for name, stage in application.stages.items()}
        self._each = 3 if all(len(profile.kinds) == 1 for profile in profiles.values()) else 4
        self._cubes = {n: StageCube(profile, self._each) for n, profile in profiles.items()}
        self.dimensions = self._each * len(self._cubes)

    def snap(self, points: Floats) -> Floats:
        """The centres of the cells that the points stand for."""
        return np.hstack(
            [cube.centres[cube.places(part)] for cube, part in self._parts(points).values()]
        )

    def configs(self, point: Floats) -> dict[str, Config]:
        """What a point stands for."""
        return {
            name: self._profile(name).configs[int(cube.places(part)[0])]
            for name, (cube, part) in self._parts(point[None]).items()
        }

    def point(self, configs: Mapping[str, Config]) -> Floats:
        """The centre of the cell of some configs."""
        return np.concatenate(
            [cube.centres[self._profile(s).index(configs[s])] for s, cube in self._cubes.items()]
        )

    def run(self, points: Floats, rng: Generator) -> tuple[Floats, Floats]:
        """What a job paid (in picodollars) and by how much it was late (us), one run per point."""
        costs = np.zeros(len(points))
        ends: dict[str, Floats] = {}
        for name, (cube, part) in self._parts(points).items():
            profile, places = self._profile(name), cube.places(part)
            noise = profile.relative_std * rng.standard_normal(len(points))
            factors = np.maximum(SHORTEST_RUN, 1 + noise)
            start = np.zeros(len(points))
            for before in self._application.stages[name].after:
                start = np.maximum(start, ends[before])
            ends[name] = start + profile.time_us[places] * factors
            costs += profile.job_cost_pusd[places] * factors
        return costs, np.max(list(ends.values()), axis=0) - self._application.slo_us

    def _profile(self, stage: str) -> Profile:
        return self._application.stages[stage].function.profile

    def _parts(self, points: Floats) -> dict[str, tuple[StageCube, Floats]]:
        """Each stage with its own dimensions, in topological order."""
        each = self._each
        return {
            name: (cube, points[:, each * number : each * (number + 1)])
            for number, (name, cube) in enumerate(self._cubes.items())
        }


def train(
    application: Application,
    rng: Generator,
    *,
    budget: Budget | None = None,
    progress: Progress = lambda application, done, total: None,
) -> dict[str, Config]:
    """The configs that Bayesian optimisation finds best for an application and its SLO."""
    # here, because scikit-learn takes a second and is not installed everywhere
    from esg.emulator.training.bayesian import optimise

    runs, hear = LoneRuns(application), partial(progress, application.name)
    return runs.configs(optimise(runs, budget or Budget(), rng, hear))


def trained_configs(
    catalog: Catalog,
    *,
    seed: int,
    cache: Path | None = None,
    progress: Progress = lambda application, done, total: None,
    budget: Budget | None = None,
    workers: int = 1,
) -> dict[str, dict[str, Config]]:
    """The learnt configs by application and stage, from the cache or by training.

    Every application learns by itself: what comes out does not depend on which others there are,
    nor on how many learn at once, in `workers` processes.
    """
    budget = budget or Budget()
    folder = default_cache() if cache is None else cache
    learnt: dict[str, dict[str, Config]] = {}
    courses: list[_Course] = []
    for name, application in catalog.applications.items():
        key = _key(application, seed, budget)
        path = folder / f"aquatope-{key}.json"
        known = _read(path, key, application)
        if known is None:
            courses.append(_Course(len(courses), application, seed, budget, key, path))
        else:
            progress(name, budget.trials, budget.trials)
            learnt[name] = known

    def watch(shares: Sequence[float]) -> None:
        for course, share in zip(courses, shares, strict=True):
            progress(course.application.name, round(share * budget.trials), budget.trials)

    if workers > 1 and len(courses) > 1:
        found = each(_take_and_tell, courses, workers=min(workers, len(courses)), watch=watch)
    else:
        found = [course.take(progress) for course in courses]
    learnt |= {c.application.name: configs for c, configs in zip(courses, found, strict=True)}
    return {name: learnt[name] for name in catalog.applications}


@dataclass(frozen=True, slots=True)
class _Course:
    """What an application has to learn, and where that is kept."""

    number: int
    application: Application
    seed: int
    budget: Budget
    key: str
    path: Path

    def take(self, progress: Progress) -> dict[str, Config]:
        name = self.application.name
        rng = np.random.default_rng(int(digest(f"{self.seed}:{name}"), 16))
        configs = train(self.application, rng, budget=self.budget, progress=progress)
        _write(self.path, Lesson(key=self.key, application=name, configs=configs))
        return configs


def _take_and_tell(course: _Course) -> dict[str, Config]:
    return course.take(lambda _, done, total: tell(course.number, done / total))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A file of the cache."""

    key: str
    application: str
    configs: dict[str, Config]


def default_cache() -> Path:
    """Where this platform keeps what can be made again."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "esg"


def _key(application: Application, seed: int, budget: Budget) -> str:
    """A content_hash of all that the result of training depends on."""
    stages = []
    for stage in application.stages.values():
        profile = stage.function.profile
        numbers = [profile.time_us.tolist(), profile.job_cost_pusd.tolist(), profile.relative_std]
        stages.append([stage.name, stage.after, profile.configs, *numbers])
    parts = [METHOD, seed, encode(budget), application.name, application.slo_us, stages]
    return digest(json.dumps(parts))


def _read(path: Path, key: str, application: Application) -> dict[str, Config] | None:
    """What is in a file of the cache, if it is one and belongs there."""
    try:
        lesson = decode(Lesson, json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, RecursionError, Rejected):
        return None
    fitting = lesson.key == key and lesson.configs.keys() == application.stages.keys()
    for name, stage in application.stages.items():
        fitting = fitting and lesson.configs[name] in stage.function.profile.configs
    return lesson.configs if fitting else None


def _write(path: Path, lesson: Lesson) -> None:
    """All or nothing; where nothing can be written, training will take its time again."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            draft = Path(folder) / path.name
            draft.write_text(to_text(lesson), "utf-8")
            draft.replace(path)
