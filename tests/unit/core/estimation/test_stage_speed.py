"""What queues learn from what their tasks took."""

import pytest

from esg.core.estimation.stage_speed import observe_run, relative_std
from esg.core.estimation.transfer import ASSUMED_REMOTE
from esg.core.state.state import Queue
from esg.units import PPM


def seen(*took_ms: int, profiled_ms: int = 100) -> Queue:
    """A queue whose tasks have taken so long, beside what is profiled."""
    queue = Queue("app/f", "app", "f")
    for one_ms in took_ms:
        observe_run(
            queue,
            profiled_us=1000 * profiled_ms,
            took_us=1000 * one_ms,
            relative_std=0.02,
        )
    return queue


def test_a_task_that_hung_says_little_about_the_next_ones() -> None:
    hung = seen(*[100] * 20, 60_000)
    assert hung.pace_ppm == PPM * 17 // 16  # as if it had taken twice as long
    assert relative_std(hung, 0.02) < 0.1


def test_tasks_that_are_all_slow_are_believed() -> None:
    assert seen(*[1000] * 60).pace_ppm > 9 * PPM


@pytest.mark.parametrize("took_ms", [0, -5, -(2**40)])
def test_a_time_that_cannot_be_leaves_a_pace_to_reckon_with(took_ms: int) -> None:
    queue = seen(*[took_ms] * 1000)
    assert queue.pace_ppm >= PPM // 2
    assert relative_std(queue, 0.02) >= 0


def fetched(*took_ms: int, inputs: int = 1, queue: Queue | None = None) -> Queue:
    """A queue whose tasks are profiled with 20 ms and had inputs from other nodes."""
    queue = queue or Queue("app/f", "app", "f")
    for one_ms in took_ms:
        observe_run(
            queue, profiled_us=20_000, took_us=1000 * one_ms, remote=inputs, relative_std=0.02
        )
    return queue


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_transfer_may_take_many_times_as_long_as_the_work(inputs: int) -> None:
    learnt_us = fetched(*[20 + 100 * inputs] * 200, inputs=inputs).remote_us
    assert 90_000 < learnt_us <= 100_000


def test_a_transfer_that_hung_says_little_about_the_next_ones() -> None:
    assert fetched(*[50] * 20, 60_000).remote_us < 35_000
    assert fetched(60_000).remote_us == 2 * ASSUMED_REMOTE.delay_us


def test_transfers_that_took_no_time_for_long_are_believed_when_they_do() -> None:
    at_once = fetched(*[20] * 200)
    assert fetched(*[70] * 200, queue=at_once).remote_us > 45_000
