"""Both engines against the brute force, and what must hold where no brute force says so."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from esg.core.catalog.model import Application
from esg.core.search import Answer, Plan, engine
from esg.core.search.frontier import Frontier
from esg.core.search.slo_split import Quotas
from tests.support.brute_force import Best, best_plans, from_stage, longest_path
from tests.support.pipelines import (
    KINDS,
    Pipeline,
    Question,
    any_dags,
    chains,
    pipelines,
    questions,
    split_joins,
)

often = settings(max_examples=300, deadline=None)


def ask(name: str, application: Application, question: Question, group_size: int = 3) -> Answer:
    return engine(name, application, group_size=group_size).search(
        question.stage, queue=question.queue, left_us=question.left_us, k=question.k
    )


def best(pipeline: Pipeline, question: Question) -> Best:
    return best_plans(
        pipeline.tables,
        from_stage(pipeline.after, question.stage),
        queue=question.queue,
        budget_us=question.left_us,
        k=question.k,
    )


def assert_equal_to_best(answer: Answer, expected: Best) -> None:
    assert answer.feasible == expected.feasible
    told = [(plan.job_cost_pusd, plan.time_us) for plan in answer.plans]
    assert told == [(plan.cost, plan.time_us) for plan in expected.plans]


def real_time(pipeline: Pipeline, plan: Plan) -> int:
    """The longest path of the true DAG through the planned stages."""
    times = {step.stage: pipeline.tables[step.stage][step.config][0] for step in plan.steps}
    part = from_stage(pipeline.after, plan.stage)
    planned = {s: [b for b in before if b in times] for s, before in part.items() if s in times}
    return longest_path(planned, times)


def assert_honest(answer: Answer, pipeline: Pipeline, question: Question) -> None:
    """Each plan can be run as it stands and costs what it says; each starts differently."""
    assert 1 <= len(answer.plans) <= question.k
    assert answer.feasible or len(answer.plans) == 1
    assert len({plan.config for plan in answer.plans}) == len(answer.plans)
    for plan in answer.plans:
        assert plan.stage == question.stage
        assert plan.config.batch <= question.queue
        names = [step.stage for step in plan.steps]
        assert len(set(names)) == len(names)
        costs = [pipeline.tables[step.stage][step.config][1] for step in plan.steps]
        assert plan.job_cost_pusd == sum(costs)
        assert real_time(pipeline, plan) <= plan.time_us
        assert not answer.feasible or plan.time_us <= answer.budget_us <= question.left_us


def assert_exact_times(answer: Answer, pipeline: Pipeline) -> None:
    assert [plan.time_us for plan in answer.plans] == [
        real_time(pipeline, plan) for plan in answer.plans
    ]


def assert_whole(answer: Answer, pipeline: Pipeline, question: Question) -> None:
    """Each plan has all that is left of the pipeline, in an order in which it can run."""
    part = from_stage(pipeline.after, question.stage)
    for plan in answer.plans:
        names = [step.stage for step in plan.steps]
        assert sorted(names) == sorted(part)
        for stage, before in part.items():
            assert all(names.index(b) < names.index(stage) for b in before)


@often
@given(st.data(), pipelines(chains()), st.sampled_from(["astar", "frontier"]))
def test_on_a_chain_both_engines_find_what_trying_everything_finds(
    data: st.DataObject, pipeline: Pipeline, name: str
) -> None:
    question = data.draw(questions(pipeline))
    answer = ask(name, pipeline.application(), question)
    assert_equal_to_best(answer, best(pipeline, question))
    assert_honest(answer, pipeline, question)
    assert_exact_times(answer, pipeline)
    assert_whole(answer, pipeline, question)
    assert answer.budget_us == question.left_us


@often
@given(
    st.data(), pipelines(chains()), st.sampled_from(["astar", "frontier"]), st.sampled_from(KINDS)
)
def test_where_all_slices_are_of_one_kind_nothing_is_planned_on_others(
    data: st.DataObject, whole: Pipeline, name: str, kind: str
) -> None:
    tables = {s: {c: t[c] for c in t if c.kind == kind} or t for s, t in whole.tables.items()}
    pipeline = Pipeline(whole.after, tables)
    question = data.draw(questions(pipeline))
    here = whole.application().with_profiles(lambda profile: profile.on_kinds([kind]))
    answer = ask(name, here, question)
    assert_equal_to_best(answer, best(pipeline, question))
    assert_honest(answer, pipeline, question)


@often
@given(st.data(), pipelines(split_joins(), max_configs=3))
def test_from_the_root_of_splits_and_joins_the_frontier_finds_what_trying_everything_finds(
    data: st.DataObject, pipeline: Pipeline
) -> None:
    question = data.draw(questions(pipeline, next(iter(pipeline.after))))
    answer = ask("frontier", pipeline.application(), question)
    assert_equal_to_best(answer, best(pipeline, question))
    assert_honest(answer, pipeline, question)
    assert_exact_times(answer, pipeline)
    assert_whole(answer, pipeline, question)


@often
@given(st.data(), pipelines(split_joins(), max_configs=3))
def test_from_any_stage_of_splits_and_joins_the_frontier_finds_what_trying_everything_finds(
    data: st.DataObject, pipeline: Pipeline
) -> None:
    question = data.draw(questions(pipeline))
    answer = ask("frontier", pipeline.application(), question)
    assert_equal_to_best(answer, best(pipeline, question))
    assert_honest(answer, pipeline, question)
    assert_exact_times(answer, pipeline)
    assert_whole(answer, pipeline, question)


@often
@given(st.data(), pipelines(any_dags(), max_configs=4))
def test_on_any_dag_the_plans_of_the_frontier_are_whole_and_keep_the_budget(
    data: st.DataObject, pipeline: Pipeline
) -> None:
    question = data.draw(questions(pipeline))
    answer = ask("frontier", pipeline.application(), question)
    assert_honest(answer, pipeline, question)
    assert_whole(answer, pipeline, question)


@often
@given(st.data(), pipelines(any_dags(), max_configs=4))
def test_plan_that_the_frontier_looks_up_is_the_first_that_it_finds(
    data: st.DataObject, pipeline: Pipeline
) -> None:
    asked = [data.draw(questions(pipeline)) for _ in range(3)]
    frontier = Frontier(pipeline.application())
    for question in asked:
        in_no_time = replace(question, left_us=0)
        looked_up = frontier.cheapest(
            question.stage, queue=question.queue, left_us=question.left_us
        )
        found = ask("frontier", pipeline.application(), question)
        if looked_up is None:  # then nothing was found, and the answer is the fastest there is
            assert len(found.plans) == 1
            assert found.plans == ask("frontier", pipeline.application(), in_no_time).plans
        else:
            assert found.feasible
            assert looked_up == found.plans[0]


@often
@given(st.data(), pipelines(any_dags(), max_configs=4), st.integers(1, 3))
def test_on_any_dag_the_plans_of_astar_reach_the_end_of_the_group_and_keep_its_budget(
    data: st.DataObject, pipeline: Pipeline, group_size: int
) -> None:
    question = data.draw(questions(pipeline))
    application = pipeline.application()
    answer = ask("astar", application, question, group_size)
    assert_honest(answer, pipeline, question)
    assert_exact_times(answer, pipeline)
    group = Quotas.of(application, group_size).rest_of_group(question.stage)
    assert all(tuple(s.stage for s in plan.steps) == group for plan in answer.plans)


@often
@given(st.data(), pipelines(chains(2, 4), max_configs=4))
def test_astar_plans_one_group_of_a_longer_chain_within_its_quota(
    data: st.DataObject, pipeline: Pipeline
) -> None:
    stages = list(pipeline.after)
    group_size = data.draw(st.integers(1, len(stages) - 1))
    question = data.draw(questions(pipeline, stages[0]))
    application = pipeline.application(slo_us=max(1, question.left_us))
    answer = ask("astar", application, question, group_size)
    group = tuple(stages[:group_size])
    if question.left_us > 0:
        quotas = Quotas.of(application, group_size).quotas_us(question.left_us)
        assert answer.budget_us == quotas[group]
    expected = best_plans(
        pipeline.tables,
        {stage: pipeline.after[stage] for stage in group},
        queue=question.queue,
        budget_us=answer.budget_us,
        k=question.k,
    )
    assert_equal_to_best(answer, expected)
    assert_honest(answer, pipeline, question)
    assert all(tuple(s.stage for s in plan.steps) == group for plan in answer.plans)


@often
@given(st.data(), pipelines(any_dags(), max_configs=4), st.sampled_from(["astar", "frontier"]))
def test_the_fastest_time_is_the_longest_path_with_every_stage_at_its_fastest(
    data: st.DataObject, pipeline: Pipeline, name: str
) -> None:
    stage = data.draw(st.sampled_from(sorted(pipeline.after)))
    part = from_stage(pipeline.after, stage)
    fastest = {s: min(time for time, _ in pipeline.tables[s].values()) for s in part}
    found = engine(name, pipeline.application(), group_size=3).fastest_us(stage)
    assert found == longest_path(part, fastest)
