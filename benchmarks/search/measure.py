"""How decisions are timed, and how answers are compared.

A contender is built anew for each cell (one application or several, one setting, one k), warmed up
with other questions, and asked each question once with the garbage collector off. So p99 includes
what the machine does besides; nothing is averaged away.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean
from time import perf_counter_ns
from typing import Protocol

from benchmarks.search.questions import Question
from benchmarks.search.reference import GaveUpError, Reply
from esg.core.catalog.model import Application
from esg.core.metrics import percentiles
from esg.core.search import Answer, Plan


class Searcher(Protocol):
    """An engine or a reference."""

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Answer | Reply: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Who answers. References answer only a few first-stage questions, because they are slow.

    `whole` says that it plans to the end of the pipeline, as `frontier` does, so that the costs
    must be equal; `best_only` that only the cheapest plan's cost can be compared.
    """

    name: str
    build: Callable[[Application], Searcher]
    whole: bool = True
    best_only: bool = False
    decisions: int | None = None
    ks: tuple[int, ...] | None = None

    @property
    def is_reference(self) -> bool:
        return self.decisions is not None

    def picks(self, questions: Sequence[Question]) -> list[Question]:
        if self.decisions is None:
            return list(questions)
        firsts = [question for question in questions if question.is_first]
        return spread(sorted(firsts, key=lambda question: question.left_share), self.decisions)


@dataclass(frozen=True, slots=True)
class Decision:
    """A question, what it took, and the reply unless the contender gave up."""

    question: Question
    took_ns: int
    reply: Reply | None

    @property
    def feasible(self) -> bool:
        return self.reply is not None and self.reply.feasible


@dataclass(slots=True, kw_only=True)
class Cell:
    """All that one contender did in one setting with one k."""

    subject: str
    contender: str
    setting: str
    k: int
    decisions: list[Decision] = field(default_factory=list)

    @property
    def ns(self) -> list[int]:
        return [decision.took_ns for decision in self.decisions]

    @property
    def p50_ns(self) -> float:
        return percentiles(self.ns, 50)[0]

    @property
    def p99_ns(self) -> float:
        return percentiles(self.ns, 99)[0]

    @property
    def mean_ns(self) -> float:
        return fmean(self.ns)

    @property
    def mean_effort(self) -> float:
        efforts = [decision.reply.effort for decision in self.decisions if decision.reply]
        return fmean(efforts) if efforts else 0.0

    @property
    def feasible_share(self) -> float:
        return fmean(decision.feasible for decision in self.decisions)

    @property
    def gave_up(self) -> int:
        return sum(decision.reply is None for decision in self.decisions)

    def only(self, keep: Callable[[Decision], bool]) -> "Cell":
        return replace(self, decisions=[one for one in self.decisions if keep(one)])


def spread(ordered: Sequence[Question], count: int) -> list[Question]:
    """A few of them, from the first to the last at equal distances."""
    gap = (len(ordered) - 1) / max(1, count - 1)
    return [ordered[round(number * gap)] for number in range(min(count, len(ordered)))]


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection while something is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measure(
    cell: Cell,
    contender: Contender,
    questions: Sequence[Question],
    warm_up: Sequence[Question],
    *,
    stop_after_ns: int | None = None,
) -> Cell:
    """Fill a cell: ask, time, keep the replies. May stop after a decision that is too slow."""
    applications = dict.fromkeys(question.application for question in (*questions, *warm_up))
    searchers = {application: contender.build(application) for application in applications}
    if not contender.is_reference:
        for question in warm_up:
            _ask(searchers[question.application], question, 1)
    answers = []
    with undisturbed():
        for question in questions:
            answer, took_ns = _ask(searchers[question.application], question, cell.k)
            answers.append((question, took_ns, answer))
            if stop_after_ns is not None and took_ns > stop_after_ns:
                break
    for question, took_ns, answer in answers:
        reply = _checked(question, answer) if isinstance(answer, Answer) else answer
        cell.decisions.append(Decision(question, took_ns, reply))
    return cell


def _ask(searcher: Searcher, question: Question, k: int) -> tuple[Answer | Reply | None, int]:
    search, stage, queue, left_us = (
        searcher.search,
        question.stage,
        question.queue,
        question.left_us,
    )
    answer: Answer | Reply | None
    start = perf_counter_ns()
    try:
        answer = search(stage, queue=queue, left_us=left_us, k=k)
    except GaveUpError:
        answer = None
    return answer, perf_counter_ns() - start


class DisagreementError(Exception):
    """Two that were asked the same question do not give the same answer."""


def compare(cell: Cell, truth: Cell, *, best_only: bool = False) -> int:
    """How many questions both answered, all with equal costs; otherwise a DisagreementError."""
    known = {decision.question: decision.reply for decision in truth.decisions}
    compared = 0
    for decision in cell.decisions:
        mine, other = decision.reply, known.get(decision.question)
        if mine is None or other is None:
            continue
        if not _equal(mine, other, 1 if best_only else None):
            raise DisagreementError(
                f"{decision.question}, k = {cell.k}:\n"
                f"  {cell.contender}: {_told(mine)}\n  {truth.contender}: {_told(other)}"
            )
        compared += 1
    return compared


def _equal(mine: Reply, other: Reply, width: int | None) -> bool:
    if not mine.feasible and not (mine.costs and other.costs):
        return not other.feasible  # engines then give their fastest plan, references none
    return mine.feasible == other.feasible and mine.costs[:width] == other.costs[:width]


def _told(reply: Reply) -> str:
    costs = ", ".join(map(str, reply.costs[:5]))
    return f"{'in time' if reply.feasible else 'too late'}, costs in pUSD: {costs or 'none'}"


def _checked(question: Question, answer: Answer) -> Reply:
    """An engine's answer as a reply, if its cheapest and dearest plans add up to what they say."""
    for plan in (answer.plans[0], answer.plans[-1]):
        said = (plan.time_us, plan.job_cost_pusd)
        true = added_up(question.application, plan)
        late = answer.feasible and plan.time_us > answer.budget_us
        if said != true or late or plan.config.batch > question.queue:
            raise DisagreementError(
                f"{question}: a plan says {said} (us, pUSD), its steps add up to {true}, "
                f"the budget is {answer.budget_us} us: {plan}"
            )
    costs = tuple(plan.job_cost_pusd for plan in answer.plans)
    if len({plan.config for plan in answer.plans}) < len(costs) or sorted(costs) != list(costs):
        raise DisagreementError(f"{question}: plans are not in order, or share a first config")
    return Reply(answer.feasible, costs, answer.effort)


def added_up(application: Application, plan: Plan) -> tuple[int, int]:
    """The time of the longest path through a plan's steps, and the cost of all of them."""
    configs = dict(plan.steps)
    ends_us: dict[str, int] = {}
    cost = 0
    for stage in application.stages.values():
        if stage.name in configs:
            profile = stage.function.profile
            row = profile.configs.index(configs[stage.name])
            start_us = max((ends_us.get(before, 0) for before in stage.after), default=0)
            ends_us[stage.name] = start_us + int(profile.time_us[row])
            cost += int(profile.job_cost_pusd[row])
    return max(ends_us.values()), cost
