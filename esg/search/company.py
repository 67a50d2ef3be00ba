"""Plans that reckon with the company a job has.

`frontier` lets later stages have batches of any size, as if others always came along. Jobs that
start together do stay together, more or less; more company than that is luck. So here the plan for
n jobs takes no batch larger than n, now or later: one engine for each n.

What waiting for one more job would bring can then be read off: the cost of a job in a company of
n + 1, with the time that is left by then, beside its cost in a company of n now.
"""

from esg.catalog import Application
from esg.search.frontier import Frontier
from esg.search.plan import Answer


class Company:
    """Plans for one application, by how many jobs there are."""

    def __init__(self, application: Application) -> None:
        self.most = max(s.function.profile.max_batch for s in application.stages.values())
        self._engines = [Frontier(_up_to(application, batch)) for batch in range(1, self.most + 1)]
        self._stairs: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        for count, engine in enumerate(self._engines, 1):
            for stage in application.stages:
                stairs = engine.onward(stage)
                self._stairs[stage, count] = stairs.times.tolist(), stairs.costs.tolist()
        self.whole_pusd = self._stairs[application.root, 1][1][-1]
        """What a job pays for all stages if it goes alone and has all the time."""

    def search(
        self, stage: str, *, jobs: int, company: int, left_us: int, k: int, own_pace: float = 1.0
    ) -> Answer:
        """The k best plans for so many jobs that have so much company, themselves included."""
        engine = self._engines[min(company, self.most) - 1]
        return engine.search(stage, queue=jobs, left_us=left_us, k=k, own_pace=own_pace)

    def stairs(self, stage: str, jobs: int) -> tuple[list[int], list[int]]:
        """What each of so many jobs pays from this stage on: the times of plans, and their costs,
        which fall as the times rise."""
        return self._stairs[stage, min(jobs, self.most)]

    def fastest_us(self, stage: str) -> int:
        """The least time in which the pipeline can be finished from `stage` on."""
        return self._engines[0].fastest_us(stage)


def _up_to(application: Application, batch: int) -> Application:
    """The same without larger batches."""
    return application.with_profiles(
        lambda profile: profile.narrowed(lambda config: config.batch <= batch)
    )
