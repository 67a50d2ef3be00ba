"""The reduced shape of a DAG says the same as the DAG, and a tangle never promises too much."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from esg.core.catalog.dag import Parallel, Series, Tangle, _dominator_children, reduced, stages_of
from tests.support.brute_force import from_stage, longest_path
from tests.support.pipelines import Dag, any_dags, split_joins

often = settings(max_examples=300, deadline=None)
durations = st.fixed_dictionaries({name: st.integers(0, 9) for name in "abcdefgh"})

WORKED_EXAMPLES: dict[str, Dag] = {
    "chain": {"a": (), "b": ("a",), "c": ("b",)},
    "split and join": {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")},
    "two sinks": {"a": (), "b": ("a",), "c": ("a",), "d": ("c",)},
    "a short cut": {"a": (), "b": ("a",), "c": ("a", "b")},
    "not series-parallel": {
        "a": (),
        "b": ("a",),
        "c": ("a",),
        "e": ("b",),
        "f": ("b", "c"),
        "z": ("e", "f"),
    },
}


def has_tangle(series: Series) -> bool:
    return any(
        isinstance(block, Tangle)
        or (isinstance(block, Parallel) and any(map(has_tangle, block.branches)))
        for block in series
    )


def makespan(series: Series, after: Dag, times: Mapping[str, int]) -> int:
    total = 0
    for block in series:
        match block:
            case str():
                total += times[block]
            case Parallel():
                total += max(makespan(branch, after, times) for branch in block.branches)
            case Tangle():
                inside = {s: [b for b in after[s] if b in block.stages] for s in block.stages}
                total += longest_path(inside, times)
    return total


@st.composite
def with_short_cuts(draw: st.DrawFn, dags: st.SearchStrategy[Dag]) -> Dag:
    """Stages that also wait, needlessly, for some that their predecessors already waited for."""
    after = draw(dags)
    behind = {stage: from_stage(after, stage) for stage in after}
    return {
        stage: tuple(
            b
            for b in after
            if b in before or (b != stage and stage in behind[b] and draw(st.booleans()))
        )
        for stage, before in after.items()
    }


@often
@given(any_dags(8))
def test_a_reduction_keeps_every_stage_exactly_once(after: Dag) -> None:
    series = reduced(after)
    assert sorted(stages_of(series)) == sorted(after)
    assert series[0] == next(iter(after))


@often
@given(any_dags(), durations)
def test_without_a_tangle_the_reduction_takes_as_long_as_the_dag(
    after: Dag, times: dict[str, int]
) -> None:
    series = reduced(after)
    assume(not has_tangle(series))
    assert makespan(series, after, times) == longest_path(after, times)


@often
@given(any_dags(8), durations)
def test_the_reduction_never_takes_less_than_the_dag(after: Dag, times: dict[str, int]) -> None:
    assert makespan(reduced(after), after, times) >= longest_path(after, times)


@often
@given(split_joins(8), durations)
def test_splits_and_joins_reduce_without_a_tangle(after: Dag, times: dict[str, int]) -> None:
    series = reduced(after)
    assert not has_tangle(series)
    assert makespan(series, after, times) == longest_path(after, times)


@often
@example({"a": (), "b": ("a",), "c": ("a", "b"), "d": ("b",)})
@given(with_short_cuts(split_joins(8)))
def test_waiting_also_for_what_came_earlier_makes_no_tangle(after: Dag) -> None:
    assert not has_tangle(reduced(after))


@often
@example({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("b", "c")})
@given(split_joins(8, all_to_all=True))
def test_a_join_that_is_at_once_a_split_makes_no_tangle(after: Dag) -> None:
    assert not has_tangle(reduced(after))


@often
@given(any_dags(8), st.randoms(use_true_random=False))
def test_the_order_in_which_stages_are_written_down_does_not_matter(
    after: Dag, random: Random
) -> None:
    shuffled = random.sample(list(after.items()), len(after))
    assert has_tangle(reduced(dict(shuffled))) == has_tangle(reduced(after))


def assert_dominators_by_definition(after: Dag) -> None:
    """One stage dominates another if every way from the root to the other passes through it."""
    root, *others = after

    def dominates(stage: str, other: str) -> bool:
        without = {s: tuple(b for b in before if b != stage) for s, before in after.items()}
        return stage == root or other not in from_stage(without, root)

    children = _dominator_children(after, list(after))
    for stage in others:
        dominators = [s for s in after if s != stage and dominates(s, stage)]
        # the immediate dominator is the one that all others dominate
        (immediate,) = [d for d in dominators if all(dominates(e, d) for e in dominators if e != d)]
        assert [parent for parent in after if stage in children[parent]] == [immediate]


@pytest.mark.parametrize("after", WORKED_EXAMPLES.values(), ids=WORKED_EXAMPLES)
def test_in_the_worked_examples_a_dominator_is_what_cannot_be_gone_round(after: Dag) -> None:
    assert_dominators_by_definition(after)


@often
@given(any_dags(8))
def test_a_dominator_is_what_cannot_be_gone_round(after: Dag) -> None:
    assert_dominators_by_definition(after)
