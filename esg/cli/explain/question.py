"""Queries to a search engine, with the time that each took, and their answers as documents."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from esg.core.catalog.model import Application
from esg.core.policies.settings import PolicySettings
from esg.core.search import Answer, Engine, Plan, engine
from esg.errors import Rejected
from esg.limits import LONGEST_US
from esg.suggest import did_you_mean
from esg.units import to_ms, to_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query to a search engine: how to go on from a stage where `queue` jobs wait and the oldest
    has waited so long."""

    application: Application
    stage: str
    slo_us: int
    waited_us: int = 0
    queue: int = 1
    k: int = PolicySettings().k

    @property
    def left_us(self) -> int:
        return self.slo_us - self.waited_us

    def ask(self, engine: Engine, *, left_us: int | None = None, k: int | None = None) -> Answer:
        """Ask the question, or the same with another time left."""
        return engine.search(
            self.stage,
            queue=self.queue,
            left_us=self.left_us if left_us is None else left_us,
            k=k or self.k,
        )


def ask_timed(question: Question, engine: Engine) -> tuple[Answer, float]:
    """The answer, and how many microseconds the search took."""
    started_ns = perf_counter_ns()
    answer = question.ask(engine)
    return answer, (perf_counter_ns() - started_ns) / 1e3


def build_timed(name: str, application: Application, group_size: int) -> tuple[Engine, float]:
    """An engine, and how many milliseconds it took to build it."""
    started_ns = perf_counter_ns()
    built = engine(name, application, group_size=group_size)
    return built, (perf_counter_ns() - started_ns) / 1e6


def stage_named(application: Application, given: str | None) -> str:
    """The stage of this name, or the only one that runs a function of this name; else the root."""
    if given is None:
        return application.root
    if given in application.stages:
        return given
    running = [stage.name for stage in application.stages.values() if stage.function.name == given]
    if len(running) > 1:
        raise Rejected(f"{given!r} runs in the stages {', '.join(running)}; name one of them")
    if not running:
        raise Rejected(f"{application.name}: {did_you_mean('stage', given, application.stages)}")
    return running[0]


def least_left_us(question: Question, engine: Engine, enough: Callable[[Answer], bool]) -> int:
    """The least time with which an answer is good enough, given that plenty of time is.

    More time never makes an answer worse, so halving finds it to the microsecond.
    """
    too_little, plenty = question.left_us, LONGEST_US
    while plenty - too_little > 1:
        middle = (too_little + plenty) // 2
        if enough(question.ask(engine, left_us=middle, k=1)):
            plenty = middle
        else:
            too_little = middle
    return plenty


def plan_document(plan: Plan, application: Application) -> dict[str, Any]:
    return {
        "configs": [
            {
                "function": application.stages[step.stage].function.name,
                "stage": step.stage,
                **step.config._asdict(),
            }
            for step in plan.steps
        ],
        "time_ms": to_ms(plan.time_us),
        "cost_usd_per_job": to_usd(plan.job_cost_pusd),
    }
