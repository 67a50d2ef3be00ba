"""Batch-aware plans: no batch is larger than the cohort of jobs that can fill it.

A cohort are the jobs that can be batched from here on. `frontier` lets later stages have batches of
any size, as if others always came along. Jobs that start together do stay together, more or less;
more than that is luck. So here the plan for n jobs takes no batch larger than n, now or later: one
engine for each n.

What waiting for one more job would bring can then be read off: the cost of a job in a cohort of
n + 1, with the time that is left by then, beside its cost in a cohort of n now.
"""

from collections.abc import Iterable
from functools import cached_property

from esg.core.catalog.model import Application
from esg.core.search.frontier import Frontier
from esg.core.search.plan import Answer


class BatchPlans:
    """Plans for one application, by how many jobs there are.

    An engine takes a millisecond or two to build, a quarter of a second for the longest chain that
    is accepted. So each is built when it is asked for; most are never needed.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.most = max(s.function.profile.max_batch for s in application.stages.values())
        self._engines: dict[int, Frontier] = {}
        self._stairs: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        self._fastest_us = application.fastest_us()
        self._rest_us = {
            name: self._fastest_us[name] - stage.function.profile.fastest_us
            for name, stage in application.stages.items()
        }

    @cached_property
    def whole_pusd(self) -> int:
        """What a job pays for all stages if it goes alone and has all the time."""
        return self.stairs(self._application.root, 1)[1][-1]

    def search(
        self,
        stage: str,
        *,
        jobs: int,
        cohort_size: int,
        left_us: int,
        k: int,
        own_pace: float = 1.0,
    ) -> Answer:
        """The k best plans for so many jobs, which are part of a cohort of that size."""
        engine = self._engine(cohort_size)
        return engine.ranked(stage, queue=jobs, left_us=left_us, k=k, own_pace=own_pace)

    def stairs(self, stage: str, jobs: int) -> tuple[list[int], list[int]]:
        """What each of so many jobs pays from this stage on: the times of plans, and their costs,
        which fall as the times rise."""
        key = stage, jobs if jobs < self.most else self.most
        found = self._stairs.get(key)
        if found is None:
            stairs = self._engine(jobs).onward(stage)
            found = self._stairs[key] = stairs.times.tolist(), stairs.costs.tolist()
        return found

    def fastest_us(self, stage: str) -> int:
        """The least time in which the pipeline can be finished from `stage` on."""
        return self._fastest_us[stage]

    def rest_us(self, stage: str) -> int:
        """The least time that what comes after `stage` takes."""
        return self._rest_us[stage]

    @property
    def built(self) -> tuple[int, ...]:
        """The cohort sizes that engines have been built for so far."""
        return tuple(sorted(self._engines))

    def build(self, cohorts: Iterable[int]) -> None:
        """Build the engines for these cohort sizes."""
        for jobs in cohorts:
            self._engine(jobs)

    def _engine(self, cohort_size: int) -> Frontier:
        batch = min(cohort_size, self.most)
        engine = self._engines.get(batch)
        if engine is None:
            engine = self._engines[batch] = Frontier(_up_to(self._application, batch))
        return engine


def _up_to(application: Application, batch: int) -> Application:
    """An application without larger batches."""
    return application.with_profiles(
        lambda profile: profile.narrowed(lambda config: config.batch <= batch)
    )
