"""Inputs that functions turn down: the end of that request, and of nothing else."""

# attack: H2

from collections.abc import Callable

from esg.core.messages.events import Event, JobFailure, TaskFinished
from esg.core.messages.outcome import Outcome
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import ms
from tests.support.desk import Desk, answer, arrived, discard, finished, joined, start


def turned_down(task: str, *requests: str, running_us: int = ms(1)) -> Event:
    """A task that was run, and whose function could do nothing with these requests' inputs."""
    failures = tuple(
        JobFailure(request=request, reason="no picture; send one", final=True)
        for request in requests
    )
    return TaskFinished(
        task=task, invoker="i0", loading_us=0, running_us=running_us, failed=failures
    )


def test_input_that_nobody_could_use_ends_its_request_at_once(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(1), turned_down("t1", "r1"))
    reason = "detect: no picture; send one"
    assert desk.new_orders == [answer("r1", Outcome.INVALID, reason=reason, slo_met=False)]


def test_the_others_of_its_batch_go_on(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, vcpus=1), arrived("r0", "thumb"))
    desk.at(ms(1), arrived("r1")).at(ms(2), arrived("r2"))
    desk.at(ms(10), finished("t1"))
    assert desk.new_orders[-1] == start("t2", "scan/detect", "r1", "r2", config=(2, 1, 1))
    desk.at(ms(160), turned_down("t2", "r2"))
    assert desk.new_orders == [
        answer("r1"),
        discard("i0", "r1"),
        answer("r2", Outcome.INVALID),
    ]


def test_nothing_is_held_against_the_node(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    desk.at(ms(10_000), turned_down("t1", "r1", running_us=ms(10_000)))
    health = desk.scheduler.state.health
    assert (health.quarantined, health.pace_ppm) == ({}, {})


def test_profiles_do_not_follow_tasks_whose_inputs_were_turned_down(
    open_desk: Callable[..., Desk],
) -> None:
    """Otherwise whoever sends nonsense, which takes no time, makes plans wrong for everyone."""
    desk = open_desk(settings=SchedulerSettings(prewarm=False, follow_profiles=True))
    desk.at(ms(0), joined("i0", resident={0: ("detect",)}))
    pace = {name: queue.pace_ppm for name, queue in desk.scheduler.state.queues.items()}
    for number in range(1, 60):
        desk.at(desk.now_us + ms(1), arrived(f"r{number}"))
        desk.at(desk.now_us + ms(1), turned_down(f"t{number}", f"r{number}"))
        assert desk.new_orders == [answer(f"r{number}", Outcome.INVALID)]
    after = {name: queue.pace_ppm for name, queue in desk.scheduler.state.queues.items()}
    assert after == pace
    assert desk.scheduler.state.measured == {}
