"""Tasks in phases on a live node: which part begins when, on what, and how they end.

What happens in which order is seen at the pool: what it hears, and what it wants done.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from esg.core.messages.events import (
    InstanceGone,
    JobFailure,
    MissingInput,
    TaskFailed,
    TaskFinished,
)
from esg.core.messages.task_order import Output, TaskOrder
from esg.errors import Fault
from esg.invoker.emulated.repository import RepositoryState
from esg.invoker.handlers.handler import CpuParts
from esg.invoker.slices.client import SliceClient
from esg.units import seconds
from tests.support.live_node import LiveNode, job, live_node, output_of, start
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

# ---- one after the other


async def test_a_task_goes_through_its_phases_and_says_how_long_they_were(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    await live.payload("r2", b"drawing")
    steps = steps_of(live)
    live.node.order(phased("t1", "wrapped", job("r1"), job("r2")))
    finished = await live.tells(TaskFinished)
    for request, content in [("r1", b"<picture>"), ("r2", b"<drawing>")]:
        expected = b"[" + output_of("wrapped", content) + b"]"
        assert live.store.local.get(request, "stage") == expected
    assert steps == [begun("t1"), prepared("t1"), entered("t1", 0), left("t1"), ended("t1")]
    assert finished.phases is not None
    assert min(finished.phases) > 0
    assert finished.phases.total_us <= finished.loading_us + finished.running_us
    await ends(live)


async def test_a_task_that_is_not_in_phases_tells_of_none(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    steps = steps_of(live)
    live.node.order(start("t1", "wrapped", job("r1")))
    assert (await live.tells(TaskFinished)).phases is None
    assert steps == [begun("t1"), ended("t1")]
    assert not live.node._turns


async def test_a_function_without_a_cpu_part_goes_to_its_slices_at_once(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    steps = steps_of(live)
    live.node.order(phased("t1", "quick", job("r1")))
    await live.tells(TaskFinished)
    assert live.store.local.get("r1", "stage") == output_of("quick", b"picture")
    assert steps == [begun("t1"), prepared("t1"), entered("t1", 0), left("t1"), ended("t1")]


async def test_emulated_cpu_parts_take_their_time_around_the_slice(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(phased("t1", "parted", job("r1")))
    phases = (await live.tells(TaskFinished)).phases
    assert phases is not None
    assert phases.before_us >= 2000
    assert phases.slices_us >= 1000
    assert phases.after_us >= 1000
    (ran,) = live.servers[0].repository.models["parted"].statistics.compute.values()
    assert ran.ns == 1_000_000

    live.node.order(start("t2", "parted", job("r1")))
    await live.tells(TaskFinished, 2)
    assert ran.ns == 1_000_000 + 4_000_000  # to a slice that has to see to all of it


async def test_a_handler_is_all_that_there_is_of_a_cpu_part(live: LiveNode) -> None:
    """None is emulated besides, whatever the profile says of it."""
    await live.payload("r1", b"picture")
    live.node.order(phased("t1", "wrapped", job("r1")))
    await live.tells(TaskFinished)
    emulated = live.node._execution.emulated
    assert emulated is not None
    assert emulated._alarms == []
    (ran,) = live.servers[0].repository.models["wrapped"].statistics.compute.values()
    assert ran.ns == 500_000


@pytest.mark.parametrize(
    ("order", "function", "emulated", "phased_call"),
    [
        (start, "quick", True, False),
        (phased, "quick", True, True),
        (phased, "wrapped", False, True),
        (phased, "quick", False, False),  # nobody but the slice sees to its CPU part
    ],
)
async def test_a_slice_is_told_when_it_has_only_a_part_of_a_task_to_emulate(
    live: LiveNode,
    monkeypatch: pytest.MonkeyPatch,
    order: Callable[..., TaskOrder],
    function: str,
    *,
    emulated: bool,
    phased_call: bool,
) -> None:
    told: list[Mapping[str, int | str]] = []
    for method in ("infer", "infer_plain"):
        _note_parameters(monkeypatch, method, told)
    if not emulated:
        live.node._execution = dataclasses.replace(live.node._execution, emulated=None)
    await live.payload("r1", b"picture")
    live.node.order(order("t1", function, job("r1")))
    assert (await live.tells(TaskFinished)).failed == ()
    assert [parameters.get("esg_phased", 0) for parameters in told] == [int(phased_call)]


def _note_parameters(
    monkeypatch: pytest.MonkeyPatch, method: str, told: list[Mapping[str, int | str]]
) -> None:
    really = getattr(SliceClient, method)

    async def noted(*given: Any, parameters: Mapping[str, int | str], **more: Any) -> Any:
        told.append(parameters)
        return await really(*given, parameters=parameters, **more)

    monkeypatch.setattr(SliceClient, method, noted)


async def test_what_comes_after_the_slices_has_one_vcpu(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    for method in ("prepare", "finish"):
        _note_vcpus(monkeypatch, method, given)
    for number, order in enumerate((phased, start), 1):
        requests = [f"r{number}{n}" for n in range(5)]
        for request in requests:
            await live.payload(request, b"picture")
        jobs = [job(request) for request in requests]
        live.node.order(order(f"t{number}", "wrapped", *jobs, slices=[0, 1], vcpus=2))
        assert (await live.tells(TaskFinished, number)).failed == ()
    assert given == [2, 1, 2, 2]


def _note_vcpus(monkeypatch: pytest.MonkeyPatch, method: str, given: list[int]) -> None:
    really = getattr(CpuParts, method)

    async def noted(cpu: CpuParts, handler: str, jobs: Any, vcpus: int, **more: Any) -> Any:
        given.append(vcpus)
        return await really(cpu, handler, jobs, vcpus, **more)

    monkeypatch.setattr(CpuParts, method, noted)


# ---- several at a time


async def test_a_cpu_part_runs_while_another_task_is_on_the_slice(live: LiveNode) -> None:
    await taken(live, 0)
    await live.payload("r2", b"picture")
    steps = steps_of(live)
    live.node.order(phased("t2", "wrapped", job("r2")))
    await until(lambda: prepared("t2") in steps)
    assert live.servers[0].busy
    live.node.order(stop("t1"))
    assert (await live.tells(TaskFinished)).task == "t2"
    assert steps == [
        *(begun("t2"), prepared("t2")),
        ended("t1"),
        *(entered("t2", 0), left("t2"), ended("t2")),
    ]
    expected = b"[" + output_of("wrapped", b"<picture>") + b"]"
    assert live.store.local.get("r2", "stage") == expected
    await ends(live)


async def test_a_slice_is_somebody_elses_while_outputs_are_made(live: LiveNode, gate: Path) -> None:
    await live.payload("r1", bytes(gate))
    await live.payload("r2", b"picture")
    let_through(gate, "prepare")
    steps = steps_of(live)
    live.node.order(phased("t1", "gated", job("r1")))
    await until((gate / "in-finish").exists)
    live.node.order(phased("t2", "quick", job("r2")))
    await live.tells(TaskFinished)
    assert steps.index(ended("t2")) > steps.index(left("t1"))
    assert ended("t1") not in steps
    let_through(gate, "finish")
    assert (await live.tells(TaskFinished, 2)).task == "t1"
    await ends(live)


async def test_a_task_runs_on_the_slices_that_it_gets_and_not_on_those_of_its_order(
    live: LiveNode,
) -> None:
    await warm(live, 1, "wrapped")
    await taken(live, 0)
    await live.payload("r2", b"picture")
    steps = steps_of(live)
    live.node.order(phased("t2", "wrapped", job("r2"), slices=[0]))
    assert (await live.tells(TaskFinished)).task == "t2"
    assert steps == [begun("t2"), prepared("t2"), entered("t2", 1), left("t2"), ended("t2")]
    assert [server.rows_of("wrapped") for server in live.servers] == [[], [1]]
    await ends(live, "t1")


async def test_a_batch_is_split_over_the_slices_in_the_order_in_which_they_were_given(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[bytes]]] = []
    really = SliceClient.infer_plain

    async def infer(part: SliceClient, function: str, jobs: Any, **more: Any) -> Any:
        contents = [content for (content,) in jobs]
        asked.append((part.address, contents))
        if part.address == live.servers[0].address:
            raise Fault("not now")
        return await really(part, function, jobs, **more)

    monkeypatch.setattr(SliceClient, "infer_plain", infer)
    requests = [f"r{number}" for number in range(5)]
    for request in requests:
        await live.payload(request, request.encode())
    jobs = [job(request) for request in requests]
    steps = steps_of(live)
    live.node.order(phased("t1", "quick", *jobs, slices=[1, 0], vcpus=2))
    assert (await live.tells(TaskFinished)).failed == ()
    assert entered("t1", 1, 0) in steps
    first, second = (server.address for server in live.servers)
    assert sorted(asked) == sorted(
        [
            (second, [b"r0", b"r1", b"r2"]),
            (first, [b"r3", b"r4"]),
            (second, [b"r3", b"r4"]),  # again
        ]
    )
    for request in requests:
        expected = output_of("quick", request.encode())
        assert live.store.local.get(request, "stage") == expected


async def test_what_goes_wrong_is_put_down_to_the_slice_where_it_did(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the one that was promised."""
    looked_at: list[str] = []
    really = SliceClient.resident

    async def resident(part: SliceClient) -> list[str]:
        looked_at.append(part.address)
        return await really(part)

    await warm(live, 1, "quick")
    await taken(live, 0)
    monkeypatch.setattr(SliceClient, "resident", resident)

    async def infer(*_: Any, **__: Any) -> Any:
        raise Fault("not today")

    await live.payload("r2", b"picture")
    with monkeypatch.context() as patch:
        patch.setattr(SliceClient, "infer_plain", infer)
        live.node.order(phased("t2", "quick", job("r2"), slices=[0]))
        finished = await live.tells(TaskFinished)
        assert finished.failed == (JobFailure(request="r2", reason="not today"),)
        await until(lambda: looked_at)
    assert looked_at == [live.servers[1].address]

    live.servers[1].repository.models["quick"].state = RepositoryState.UNAVAILABLE
    live.node.order(phased("t3", "quick", job("r2"), slices=[0]))
    assert "unknown model: 'quick'" in (await live.tells(TaskFinished, 2)).failed[0].reason
    assert (await live.tells(InstanceGone)).slice == 1
    await ends(live, "t1")


@pytest.mark.parametrize("promised", [0, 1])
async def test_what_follows_from_a_standing_order_begins_at_once_and_takes_a_free_slice(
    live: LiveNode, promised: int
) -> None:
    for index in (0, 1):
        for function in ("wrapped", "quick"):
            await warm(live, index, function)
    await taken(live, 0)
    await live.payload("r1", b"picture")
    then = phased(
        "t3", "quick", job("r1", Output(stage="a", invoker="i0")), slices=[promised], stage="b"
    )
    first = phased("t2", "wrapped", job("r1"), slices=[promised], stage="a")
    steps = steps_of(live)
    live.node.order(replace(first, then=replace(then, within_us=seconds(600))))
    await live.tells(TaskFinished, 2)
    assert [finished.continued for finished in live.told(TaskFinished)] == ["t3", ""]
    assert all(finished.phases is not None for finished in live.told(TaskFinished))
    assert steps == [
        *(begun("t2"), prepared("t2"), entered("t2", 1), left("t2"), ended("t2")),
        *(begun("t3"), prepared("t3"), entered("t3", 1), left("t3"), ended("t3")),
    ]
    between = b"[" + output_of("wrapped", b"<picture>") + b"]"
    assert live.store.local.get("r1", "b") == output_of("quick", between)
    await ends(live, "t1")


# ---- no turn


async def test_a_task_without_its_inputs_waits_for_no_slice(redis_url: str, tmp_path: Path) -> None:
    async with live_node(redis_url, tmp_path, fetch_timeout_s=0.0) as live:
        await taken(live, 0)
        steps = steps_of(live)
        source = Output(stage="a", invoker="i0")
        live.node.order(phased("t2", "quick", job("r2", source)))
        failed = await live.tells(TaskFailed)
        assert failed.missing == (MissingInput(request="r2", source=source),)
        assert steps == [begun("t2"), ended("t2")]
        await ends(live, "t1")


@pytest.mark.parametrize(
    ("content", "failure"),
    [
        (b"refuse", JobFailure(request="r2", reason="no picture; send one", final=True)),
        (
            b"raise",
            JobFailure(
                request="r2",
                reason="handler tests.support.handlers:Failing: prepare: ValueError: not a picture",
            ),
        ),
    ],
)
async def test_a_task_of_which_no_job_is_left_waits_for_no_slice(
    live: LiveNode, content: bytes, failure: JobFailure
) -> None:
    await taken(live, 0)
    await live.payload("r2", content)
    steps = steps_of(live)
    live.node.order(phased("t2", "failing", job("r2")))
    finished = await live.tells(TaskFinished)
    assert finished.failed == (failure,)
    assert finished.phases is not None
    assert finished.phases[1:] == (0, 0)
    assert steps == [begun("t2"), ended("t2")]
    await ends(live, "t1")


async def test_a_job_that_is_turned_down_does_not_hold_up_the_others(live: LiveNode) -> None:
    for request, content in [("r1", b"picture"), ("r2", b"refuse")]:
        await live.payload(request, content)
    live.node.order(phased("t1", "failing", job("r1"), job("r2")))
    finished = await live.tells(TaskFinished)
    assert finished.failed == (JobFailure(request="r2", reason="no picture; send one", final=True),)
    assert live.store.local.get("r1", "stage") == output_of("failing", b"picture")
    assert live.servers[0].rows_of("failing") == [1]
