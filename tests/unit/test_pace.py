"""What queues learn from what their tasks took."""

import pytest

from esg.pace import observe_run, relative_std
from esg.state import PPM, Queue


def seen(*took_ms: int, profiled_ms: int = 100) -> Queue:
    """A queue whose tasks have taken so long, beside what is profiled."""
    queue = Queue("app/f", "app", "f")
    for one_ms in took_ms:
        observe_run(
            queue,
            profiled_us=1000 * profiled_ms,
            took_us=1000 * one_ms,
            remote=0,
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
