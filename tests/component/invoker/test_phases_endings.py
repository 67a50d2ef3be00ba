"""How tasks in phases end before their time: in whichever phase that is, once, and nothing is left.

In every story a task has the only slice for half an hour, unless it is the one that ends.
"""

import asyncio
from pathlib import Path

import pytest

from esg.core.messages.events import TaskFailed, TaskFinished
from esg.invoker.emulated.repository import RepositoryState
from tests.support.live_node import LiveNode, job, output_of
from tests.support.live_phases import (
    begun,
    ended,
    ends,
    entered,
    left,
    let_through,
    phased,
    prepared,
    steps_of,
    stop,
    taken,
    warm,
)
from tests.support.waiting import until

STOPPED = TaskFailed(task="t2", invoker="i0", reason="stopped")


# ---- stopped


async def test_one_that_waits_for_vcpus_is_stopped_at_once(live: LiveNode) -> None:
    await taken(live, 0)
    steps = steps_of(live)
    live.node.order(phased("t2", "quick", job("r2"), vcpus=4))
    live.node.order(stop("t2"))
    assert [failed.reason for failed in live.told(TaskFailed)] == ["stopped before it began"]
    assert steps == []
    await ends(live, "t1")


async def test_one_that_has_not_made_a_step_is_stopped(live: LiveNode) -> None:
    steps = steps_of(live)
    live.node.order(phased("t2", "quick", job("r2")))
    live.node.order(stop("t2"))
    assert await live.tells(TaskFailed) == STOPPED
    assert steps == [begun("t2"), ended("t2")]
    await ends(live)


async def test_one_that_is_preparing_is_stopped(live: LiveNode, gate: Path) -> None:
    await live.payload("r2", bytes(gate))
    steps = steps_of(live)
    live.node.order(phased("t2", "gated", job("r2")))
    await until((gate / "in-prepare").exists)
    live.node.order(stop("t2"))
    live.node.order(stop("t2"))  # heard twice
    assert await live.tells(TaskFailed) == STOPPED
    assert steps == [begun("t2"), ended("t2")]
    await ends(live)


async def test_one_that_waits_for_its_slices_is_stopped(live: LiveNode) -> None:
    await taken(live, 0)
    await live.payload("r2", b"picture")
    steps = steps_of(live)
    live.node.order(phased("t2", "quick", job("r2")))
    await until(lambda: prepared("t2") in steps)
    live.node.order(stop("t2"))
    live.node.order(stop("t2"))
    assert await live.tells(TaskFailed) == STOPPED
    assert steps == [begun("t2"), prepared("t2"), ended("t2")]
    assert live.servers[0].busy  # which is nobody else's business
    await ends(live, "t1")


async def test_one_that_is_on_its_slices_is_stopped_and_they_are_free(live: LiveNode) -> None:
    steps = steps_of(live)
    await taken(live, 0, "t2")
    live.node.order(stop("t2"))
    assert await live.tells(TaskFailed) == STOPPED
    assert steps == [begun("t2"), prepared("t2"), entered("t2", 0), ended("t2")]
    await until(lambda: not live.servers[0].busy)
    await live.payload("r3", b"picture")
    live.node.order(phased("t3", "quick", job("r3")))
    await live.tells(TaskFinished)
    assert live.store.local.get("r3", "stage") == output_of("quick", b"picture")
    await ends(live)


async def test_one_that_makes_its_outputs_is_stopped_and_leaves_none(
    live: LiveNode, gate: Path
) -> None:
    await live.payload("r2", bytes(gate))
    let_through(gate, "prepare")
    steps = steps_of(live)
    live.node.order(phased("t2", "gated", job("r2")))
    await until((gate / "in-finish").exists)
    live.node.order(stop("t2"))
    assert await live.tells(TaskFailed) == STOPPED
    assert steps == [begun("t2"), prepared("t2"), entered("t2", 0), left("t2"), ended("t2")]
    assert live.files() == []
    await ends(live)


# ---- what it waits for is gone


async def test_one_that_waits_for_a_slice_fails_when_that_is_lost(live: LiveNode) -> None:
    await taken(live, 0)
    await live.payload("r2", b"picture")
    steps = steps_of(live)
    live.node.order(phased("t2", "quick", job("r2")))
    await until(lambda: prepared("t2") in steps)
    live.node.slice_lost(0, "a test")
    assert await live.tells(TaskFailed) == TaskFailed(task="t2", invoker="i0", reason="a test")
    assert steps == [begun("t2"), prepared("t2"), ended("t2")]
    assert list(live.pool.running) == ["t1"]
    await ends(live, "t1")


async def test_one_that_prepares_itself_fails_when_its_slice_is_lost(
    live: LiveNode, gate: Path
) -> None:
    await live.payload("r2", bytes(gate))
    steps = steps_of(live)
    live.node.order(phased("t2", "gated", job("r2")))
    await until((gate / "in-prepare").exists)
    live.node.slice_lost(0, "a test")
    assert (await live.tells(TaskFailed)).reason == "a test"
    assert steps == [begun("t2"), ended("t2")]
    await ends(live)


async def test_one_whose_slice_dies_under_it_says_which_job_it_could_not_do(
    live: LiveNode,
) -> None:
    steps = steps_of(live)
    await taken(live, 0, "t2")
    await live.servers[0].stop()
    finished = await live.tells(TaskFinished)
    ((request, reason),) = [(f.request, f.reason) for f in finished.failed]
    assert request == "r0"
    assert reason.startswith(f"slice {live.servers[0].address} did not run endless: ")
    assert steps == [begun("t2"), prepared("t2"), entered("t2", 0), left("t2"), ended("t2")]
    assert [part.usable for part in live.pool.slices] == [False, True]
    await ends(live)


async def test_one_whose_model_cannot_be_loaded_fails_with_it(live: LiveNode) -> None:
    await live.payload("r2", b"picture")
    live.node.order(phased("t2", "large", job("r2")))
    assert (await live.tells(TaskFailed)).reason.startswith("large could not be loaded: slice ")
    await ends(live)


async def test_one_whose_model_is_lost_while_it_prepares_itself_fails_with_it(
    live: LiveNode, gate: Path
) -> None:
    await live.payload("r2", bytes(gate))
    steps = steps_of(live)
    live.node.order(phased("t2", "gated", job("r2")))
    await until((gate / "in-prepare").exists)
    await until(lambda: live.pool.slices[0].has("gated"))
    live.servers[0].repository.models["gated"].state = RepositoryState.UNAVAILABLE
    await live.node._check_resident(0)
    failed = await live.tells(TaskFailed)
    assert failed.reason == "gated could not be loaded: slice 0 has lost it"
    assert steps == [begun("t2"), ended("t2")]
    await ends(live)


# ---- all of them


@pytest.mark.parametrize("stopped", [False, True])
async def test_starting_afresh_gives_up_every_task_in_whichever_phase(
    live: LiveNode, *, stopped: bool
) -> None:
    """Each one's end would be the next one's turn."""
    await warm(live, 0, "quick")
    await taken(live, 0)
    for request in ("r2", "r3"):
        await live.payload(request, b"picture")
    steps = steps_of(live)
    live.node.order(phased("t2", "quick", job("r2")))
    await until(lambda: prepared("t2") in steps)
    live.node.order(phased("t3", "quick", job("r3"), vcpus=4))  # in line for vCPUs
    if stopped:
        live.node.order(stop("t2"))  # and is not the next one for the slice any more
    await live.node.start_afresh()
    assert (entered("t2", 0) in steps) != stopped
    assert begun("t3") in steps
    assert {failed.task for failed in live.told(TaskFailed)} == {"t1", "t2", "t3"}
    assert live.node._executing == {}
    assert live.files() == []
    await ends(live)


async def test_closing_gives_up_every_task_in_whichever_phase(live: LiveNode) -> None:
    await warm(live, 0, "quick")
    await taken(live, 0)
    for request in ("r2", "r3"):
        await live.payload(request, b"picture")
    steps = steps_of(live)
    live.node.order(phased("t2", "quick", job("r2")))
    await until(lambda: prepared("t2") in steps)
    live.node.order(phased("t3", "quick", job("r3"), vcpus=4))
    await live.node.close()
    assert sorted(step for step in steps if step[0] == "ExecutionEnded") == [
        *(ended("t1"), ended("t2"), ended("t3"))
    ]
    await until(lambda: not live.servers[0].busy)
    left_over = [repr(task.get_coro()) for task in asyncio.all_tasks()]
    assert [name for name in left_over if "Execution." in name] == []
    await ends(live)
