"""What is made of the runs of a config: a time, and phases that add up to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esg.core.catalog.config import Config
from esg.core.catalog.phases import Phases
from esg.profiler.record import Cell

PART_US = st.integers(0, 10**9)
PHASES = st.builds(Phases, PART_US, PART_US, PART_US)


def cell(*phased: tuple[int, int, int], joint_us: tuple[int, ...] = (), vcpus: int = 1) -> Cell:
    return Cell(Config(4, vcpus, 1), [Phases(*run) for run in phased], list(joint_us))


def test_each_part_is_the_median_of_its_own_and_a_straggler_counts_as_one_run() -> None:
    one = cell((30, 100, 9), (900, 99, 8), (31, 101, 500))
    assert one.runs_us == [139, 1007, 632]
    assert (one.time_us, one.phases) == (632, Phases(523, 100, 9))


def test_what_is_left_of_the_time_is_before_the_slices() -> None:
    assert cell((30, 100, 10), (20, 110, 10), (10, 100, 30)).phases == Phases(30, 100, 10)


def test_the_slices_come_first_if_medians_of_parts_add_up_to_more_than_that_of_the_whole() -> None:
    one = cell((0, 60, 50), (0, 100, 0), (0, 0, 100))
    assert (one.time_us, one.phases) == (100, Phases(0, 60, 40))


@pytest.mark.parametrize(
    ("joint_us", "after_us"),
    [
        (160, 30),  # what is left by the other phases
        (190, 40),  # never more than on one vCPU
        (135, 10),  # never less than with all four at work
    ],
)
def test_a_joint_task_has_after_its_slices_what_the_other_phases_leave(
    joint_us: int, after_us: int
) -> None:
    one = cell((30, 100, 40), joint_us=(joint_us,), vcpus=4)
    assert one.time_us == joint_us
    assert one.phases == Phases(joint_us - 100 - after_us, 100, after_us)


def test_the_time_and_its_spread_are_those_of_joint_tasks() -> None:
    one = cell((30, 100, 40), (30, 100, 60), joint_us=(150, 153, 147), vcpus=2)
    assert one.runs_us == [150, 153, 147]
    assert one.deviations == [0.02, 0.02]


@given(st.lists(PHASES, min_size=1), st.lists(PART_US), st.integers(1, 16))
def test_phases_are_never_negative_and_add_up_to_the_time(
    phased: list[Phases], joint_us: list[int], vcpus: int
) -> None:
    one = Cell(Config(1, vcpus, 1), phased, joint_us)
    assert min(one.phases) >= 0
    assert one.phases.total_us == one.time_us
