"""How an SLO is shared among the groups of any DAG with one root."""

from hypothesis import given, settings
from hypothesis import strategies as st

from esg.core.search.slo_split import Quotas
from tests.support.pipelines import Pipeline, any_dags, chains, paths, pipelines

often = settings(max_examples=150, deadline=None)
group_sizes = st.integers(1, 4)
times_us = st.integers(1, 2_000_000)


@often
@given(pipelines(any_dags(), max_configs=4), group_sizes)
def test_every_stage_is_in_exactly_one_group(pipeline: Pipeline, group_size: int) -> None:
    quotas = Quotas.of(pipeline.application(), group_size)
    grouped = [stage for group in quotas.groups for stage in group]
    assert sorted(grouped) == sorted(pipeline.after)


@often
@given(pipelines(any_dags(), max_configs=4), group_sizes)
def test_a_group_is_a_short_run_of_stages_that_follow_each_other(
    pipeline: Pipeline, group_size: int
) -> None:
    for group in Quotas.of(pipeline.application(), group_size).groups:
        assert 1 <= len(group) <= group_size
        for position in range(1, len(group)):
            assert group[position - 1] in pipeline.after[group[position]]


@often
@given(pipelines(any_dags(), max_configs=4), group_sizes, times_us)
def test_along_every_path_the_quotas_sum_to_at_most_the_slo(
    pipeline: Pipeline, group_size: int, slo_us: int
) -> None:
    quotas = Quotas.of(pipeline.application(), group_size)
    quota_us = quotas.quotas_us(slo_us)
    assert min(quota_us.values()) >= 0
    for path in paths(pipeline.after):
        groups = {quotas.group_of[stage] for stage in path}
        assert sum(quota_us[group] for group in groups) <= slo_us


@often
@given(pipelines(chains(1, 8), max_configs=4), group_sizes, times_us)
def test_along_a_chain_the_quotas_sum_to_exactly_the_slo(
    pipeline: Pipeline, group_size: int, slo_us: int
) -> None:
    quotas_us = Quotas.of(pipeline.application(), group_size).quotas_us(slo_us)
    assert sum(quotas_us.values()) == slo_us


@often
@given(pipelines(any_dags(), max_configs=4), group_sizes, times_us)
def test_the_last_group_may_use_all_that_is_left(
    pipeline: Pipeline, group_size: int, left_us: int
) -> None:
    application = pipeline.application()
    quotas = Quotas.of(application, group_size)
    for stage in application.stages:
        if not application.successors[quotas.group_of[stage][-1]]:
            assert quotas.budget_us(stage, left_us) == left_us


@often
@given(pipelines(any_dags(), max_configs=4), group_sizes, times_us)
def test_groups_that_use_up_their_budgets_one_after_the_other_still_end_in_time(
    pipeline: Pipeline, group_size: int, slo_us: int
) -> None:
    quotas = Quotas.of(pipeline.application(), group_size)
    for path in paths(pipeline.after):
        left_us = slo_us
        for group in dict.fromkeys(quotas.group_of[stage] for stage in path):
            first = next(stage for stage in path if stage in group)
            budget_us = quotas.budget_us(first, left_us)
            assert 0 <= budget_us <= left_us
            left_us -= budget_us
        if len(paths(pipeline.after)) == 1:
            assert left_us == 0


@often
@given(pipelines(any_dags(), max_configs=4), group_sizes, times_us)
def test_the_group_of_the_root_gets_the_same_as_a_quota_and_as_a_budget(
    pipeline: Pipeline, group_size: int, slo_us: int
) -> None:
    application = pipeline.application()
    quotas = Quotas.of(application, group_size)
    quota_us = quotas.quotas_us(slo_us)[quotas.group_of[application.root]]
    budget_us = quotas.budget_us(application.root, slo_us)
    assert budget_us == quota_us
