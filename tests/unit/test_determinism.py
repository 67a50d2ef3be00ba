"""A run is the same in every process: no order depends on a hash, an address or the clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.nature import Nature
from emulator.world import World
from esg.commands import StartTask
from esg.events import RequestArrived
from tests.golden.regenerate import CATALOG, emulate, new_pool, new_scheduler

ROOT = Path(__file__).parents[2]


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


def test_another_seed_gives_other_orders() -> None:
    one, other = (emulate(20, nodes=2, seed=seed).lines for seed in (1, 2))
    assert one[1:] != other[1:]


def test_tasks_whose_decision_took_longer_are_not_lost() -> None:
    """A later task may have been decided on faster than the one before it."""
    scheduler = new_scheduler()
    pool = new_pool("i0", warm=True)

    def charge_us(order: StartTask) -> int:
        return 1000 if int(order.task[1:]) % 2 else 0

    world = World(scheduler, {"i0": pool}, Nature(CATALOG, 1), charge_us=charge_us)
    world.tell(0, pool.joined())
    for number, application in enumerate(list(CATALOG.applications) * 2):
        world.tell(0, RequestArrived(request=f"r{number}", application=application))
    world.run()
    assert scheduler.state.requests == {}
