"""A run is the same in every process: no order depends on a hash, an address or the clock."""

import os
import subprocess
import sys

import pytest

from esg.core.durations import Durations
from esg.core.messages.commands import StartTask
from esg.core.messages.events import Event, RequestArrived
from esg.emulator.world import World
from tests.golden.regenerate import CATALOG, emulate, new_pool, new_scheduler
from tests.support.paths import ROOT


def journal_of_another_process(hash_seed: str, *, warm: bool) -> list[str]:
    code = (
        "from tests.golden.regenerate import emulate\n"
        f"print(*emulate(150, nodes=4, warm={warm}).lines, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("warm", [False, True])
def test_two_processes_with_different_hashes_give_the_same_orders(warm: bool) -> None:
    one = journal_of_another_process("1", warm=warm)
    assert len(one) > 400
    assert one == journal_of_another_process("2", warm=warm)


def test_emulation_with_another_seed_gives_other_orders() -> None:
    one, other = (emulate(20, nodes=2, seed=seed).lines for seed in (1, 2))
    assert one[1:] != other[1:]


def test_an_arrival_comes_after_all_else_at_its_microsecond() -> None:
    application = next(iter(CATALOG.applications))

    def seen(*arrivals: int) -> list[tuple[int, str]]:
        """What the scheduler hears of when requests come at these times."""
        heard: list[tuple[int, str]] = []
        pool = new_pool("i0", warm=True)
        world = World(
            new_scheduler(),
            {"i0": pool},
            Durations(CATALOG, 1),
            observe=lambda now_us, event, _: heard.append((now_us, _named(event))),
        )
        world.tell(0, pool.joined())
        requests = (
            RequestArrived(request=f"r{number}", application=application)
            for number in range(len(arrivals))
        )
        world.run(zip(arrivals, requests, strict=True))
        return heard

    ends_us, first_end = next((at, what) for at, what in seen(10) if what == "TaskFinished")
    then = [what for at, what in seen(10, ends_us, ends_us) if at == ends_us]
    assert then == [first_end, "r1", "r2"]


def _named(event: Event) -> str:
    return event.request if isinstance(event, RequestArrived) else type(event).__name__


def test_a_process_hears_nothing_once_another_has_taken_its_place() -> None:
    scheduler = new_scheduler()
    first, second = new_pool("i0", warm=True), new_pool("i0", warm=True)
    world = World(scheduler, {"i0": first}, Durations(CATALOG, 1))
    world.tell(0, first.joined())
    world.tell(0, RequestArrived(request="r0", application=next(iter(CATALOG.applications))))
    world.at(1, lambda: world.start(second))
    world.run()
    assert list(world.pools.values()) == [second]
    assert list(first.running) == ["t1"]  # what it was doing never ended
    assert list(scheduler.state.requests) == ["r0"]


def test_tasks_whose_decision_took_longer_are_not_lost() -> None:
    """A later task may have been decided on faster than the one before it."""
    scheduler = new_scheduler()
    pool = new_pool("i0", warm=True)

    def charge_us(command: StartTask) -> int:
        return 1000 if int(command.order.task[1:]) % 2 else 0

    world = World(scheduler, {"i0": pool}, Durations(CATALOG, 1), charge_us=charge_us)
    world.tell(0, pool.joined())
    for number, application in enumerate(list(CATALOG.applications) * 2):
        world.tell(0, RequestArrived(request=f"r{number}", application=application))
    world.run()
    assert scheduler.state.requests == {}
