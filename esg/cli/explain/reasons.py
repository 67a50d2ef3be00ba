"""Why this plan: a few plain sentences about what else could have been done."""

from esg.cli.explain.question import Question, least_left_us
from esg.console.formatting import (
    exact_ms_text,
    job_cost_text,
    joined,
    ms_text,
    percent_text,
)
from esg.console.handled import fastest_handled_us, handled_notes
from esg.core.catalog.model import one_core_complaint
from esg.core.search import Answer, Engine, Plan
from esg.limits import LONGEST_US


def reasons(question: Question, engine: Engine, engine_name: str, answer: Answer) -> list[str]:
    why = _why_not_cheaper if answer.feasible else _why_not_at_all
    scope = _scope(question, answer) if engine_name == "astar" else []
    return [*scope, *why(question, engine, answer), *_on_real_slices(question, answer)]


def _on_real_slices(question: Question, answer: Answer) -> list[str]:
    """What the plan leaves out: that handlers may use vCPUs otherwise than profiles have it."""
    application = question.application
    onward = application.onward[question.stage]
    notes = handled_notes(
        dict.fromkeys(
            stage.function for name, stage in application.stages.items() if name in onward
        )
    )
    fastest_us = fastest_handled_us(application)[question.stage]
    if answer.feasible and fastest_us > question.left_us:
        notes.append(
            f"As they are handled, no config is in time from here: the fastest take "
            f"{exact_ms_text(fastest_us)} ms."
        )
    return notes


def _scope(question: Question, answer: Answer) -> list[str]:
    """The paper's search plans one function group; say so where the pipeline goes on after it."""
    planned = [step.stage for step in answer.plans[0].steps]
    if not question.application.successors[planned[-1]]:
        return []
    return [
        f"astar plans the function group {joined(planned)} here. Its quota is "
        f"{ms_text(answer.budget_us)} ms of the {ms_text(question.left_us)} ms left; what comes "
        "after is planned when it is its turn, and is not in these times and costs."
    ]


def _why_not_cheaper(question: Question, engine: Engine, answer: Answer) -> list[str]:
    best = answer.plans[0]
    unhurried = question.ask(engine, left_us=LONGEST_US, k=1).plans[0]
    if unhurried.job_cost_pusd >= best.job_cost_pusd:
        return ["Why not cheaper: no plan is, even if time did not matter."]

    def is_cheaper(other: Answer) -> bool:
        return other.feasible and other.plans[0].job_cost_pusd < best.job_cost_pusd

    left_us = least_left_us(question, engine, is_cheaper)
    slower = question.ask(engine, left_us=left_us, k=1).plans[0]
    cheapest = (
        f"Why not cheaper: if time did not matter, {_configs(unhurried)} would cost "
        f"{job_cost_text(unhurried.job_cost_pusd)} USD per 1k, "
        f"{_saving(unhurried, best)} less. It takes {ms_text(unhurried.time_us)} ms and would be "
        f"{ms_text(unhurried.time_us - answer.budget_us)} ms late."
    )
    next_slower = (
        f"Why not slower: the next cheaper plan, {_configs(slower)}, takes "
        f"{ms_text(slower.time_us)} ms. It would save {_saving(slower, best)} and be "
        f"{ms_text(slower.time_us - answer.budget_us)} ms late; with an SLO of "
        f"{exact_ms_text(question.waited_us + left_us)} ms it would be chosen."
    )
    return [next_slower] if slower.steps == unhurried.steps else [cheapest, next_slower]


def _why_not_at_all(question: Question, engine: Engine, answer: Answer) -> list[str]:
    fastest = answer.plans[0]
    late_us = fastest.time_us - answer.budget_us
    if question.left_us > 0:
        problem = f"{ms_text(late_us)} ms more than the {ms_text(answer.budget_us)} ms it may take."
    else:
        problem = f"and the deadline passed {ms_text(-question.left_us)} ms ago."
    left_us = least_left_us(question, engine, lambda other: other.feasible)
    after = f" after {ms_text(question.waited_us)} ms of waiting" if question.waited_us else ""
    stages = question.application.stages
    alone = one_core_complaint(dict.fromkeys(stages[s.stage].function for s in fastest.steps))
    return [
        f"No plan is in time. Even the fastest, {_configs(fastest)}, takes "
        f"{ms_text(fastest.time_us)} ms, {problem}",
        *([f"{alone[0].upper()}{alone[1:]}."] if alone else []),
        f"The smallest SLO that can be met from here{after} is "
        f"{exact_ms_text(question.waited_us + left_us)} ms.",
    ]


def _configs(plan: Plan) -> str:
    return " ".join(str(step.config) for step in plan.steps)


def _saving(cheaper: Plan, best: Plan) -> str:
    return percent_text(best.job_cost_pusd - cheaper.job_cost_pusd, best.job_cost_pusd)
