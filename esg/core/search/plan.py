"""Plans, and the engines that search for them: what is asked, and what is answered."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from esg.core.catalog.config import Config


class Step(NamedTuple):
    """One stage of a plan."""

    stage: str
    config: Config


class Plan(Struct):
    """Configs from the current stage on, with the time and cost they predict.

    `time_us` is the longest path through the planned stages (within a tangle it may be a little
    above it: see `frontier`); `job_cost_pusd` is what one job pays.
    `rest` are the steps after the current one, in the order of the pipeline.
    """

    stage: str
    config: Config
    time_us: int
    job_cost_pusd: int
    rest: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        return (Step(self.stage, self.config), *self.rest)


class Answer(Struct):
    """Up to k plans, cheapest first, each with another config for the current stage.

    If no plan keeps the budget, `feasible` is False and the one plan is the fastest there is.
    `effort` counts the partial plans that were looked at: a measure that a replay repeats.
    """

    plans: Sequence[Plan]
    feasible: bool
    budget_us: int
    effort: int


class Engine(Protocol):
    """Plans for one application. Built once, asked before every dispatch."""

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Answer:
        """Plan from `stage` on for the `queue` jobs that wait there, `left_us` before the deadline
        of the oldest. A batch larger than the queue is not offered for the current stage; later
        stages may batch with other requests.
        """
        ...

    def cheapest(self, stage: str, queue: int, left_us: int) -> Plan | None:
        """The first plan of that answer, if it is known without a search."""
        ...

    def fastest_us(self, stage: str) -> int:
        """The least time in which the pipeline can be finished from `stage` on."""
        ...
