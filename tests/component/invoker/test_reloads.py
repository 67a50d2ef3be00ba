"""A node reloads a function: its handler from disk, its model on the slices that have it."""

from pathlib import Path

import pytest

from esg.core.messages.commands import WarmInstance
from esg.core.messages.events import InstanceGone, InstanceReady, TaskFailed, TaskFinished
from esg.errors import Fault, Rejected
from esg.invoker.handlers.handler import CpuParts
from esg.invoker.slices.client import SliceClient
from tests.support.live_node import LiveNode, job, output_of, start
from tests.support.waiting import LIMIT_S, until

HANDLER = """
import numpy as np

class Handler:
    def prepare(self, inputs):
        return {"X": np.frombuffer(inputs[0], np.uint8)}

    def finish(self, outputs, inputs):
        return b"WORD"
"""


def write(file: Path, word: str) -> None:
    file.write_text(HANDLER.replace("WORD", word), "utf-8")


async def test_a_handler_that_is_read_anew_must_still_take_several_cores(tmp_path: Path) -> None:
    file = tmp_path / "handler.py"
    file.write_text(HANDLER.replace("inputs)", "inputs, cores)"), "utf-8")
    handler = f"{file}:Handler"
    cpu = CpuParts(2, LIMIT_S, [handler], within_job=[handler])
    try:
        async with cpu.renewed(handler):
            pass
        write(file, "new")
        with pytest.raises(Rejected, match="let both have a parameter `cores`"):
            async with cpu.renewed(handler):
                pass
    finally:
        cpu.close()


async def said(cpu: CpuParts, handler: str, jobs: int = 4) -> list[object]:
    """What as many workers as there can be have to say."""
    return await cpu.finish(handler, [({}, [b"x"])] * jobs, jobs)


async def test_workers_have_the_code_that_was_read_whenever_they_start(tmp_path: Path) -> None:
    """Also one that takes the place of a worker that died."""
    file = tmp_path / "handler.py"
    write(file, "old")
    handler = f"{file}:Handler"
    cpu = CpuParts(4, LIMIT_S, [handler])
    try:
        write(file, "new")
        assert set(map(str, await said(cpu, handler))) == {"b'old'"}
        async with cpu.renewed(handler) as take_over:
            assert set(map(str, await said(cpu, handler))) == {"b'old'"}
            take_over()
        write(file, "newer")
        assert set(map(str, await said(cpu, handler))) == {"b'new'"}
    finally:
        cpu.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("class Handler: pass", "it needs the methods prepare and finish"),
        ("raise SystemExit", "it ends the process"),
        ("def", "invalid syntax"),
        ("import os; os._exit(3)", "died"),
    ],
)
async def test_a_handler_that_is_no_good_leaves_the_old_one(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "handler.py"
    write(file, "old")
    handler = f"{file}:Handler"
    cpu = CpuParts(1, LIMIT_S, [handler])
    try:
        file.write_text(text, "utf-8")
        with pytest.raises((Rejected, Fault), match=words):
            async with cpu.renewed(handler):
                raise AssertionError("it was no good")
        file.unlink()
        with pytest.raises(Rejected, match="No such file"):
            async with cpu.renewed(handler):
                raise AssertionError("it is not there")
        assert await said(cpu, handler, 1) == [b"old"]
    finally:
        cpu.close()


async def reloaded(live: LiveNode, function: str) -> str:
    """Why it was not."""
    answers: list[str] = []
    live.node.reload(function, answers.append)
    await until(lambda: answers)
    return answers[0]


async def warmed(live: LiveNode, function: str, count: int) -> None:
    for index in range(count):
        live.node.order(WarmInstance(invoker="i0", slice=index, function=function))
    await live.tells(InstanceReady, count)


async def test_a_scheduler_hears_nothing_of_a_function_that_is_reloaded(live: LiveNode) -> None:
    await warmed(live, "wrapped", 2)
    before = list(live.news)
    assert await reloaded(live, "wrapped") == ""
    assert live.news == before
    await live.payload("r1", b"x")
    live.node.order(start("t1", "wrapped", job("r1")))
    await live.tells(TaskFinished)
    assert live.store.local.get("r1", "stage") == b"[" + output_of("wrapped", b"<x>") + b"]"


async def test_a_function_without_a_handler_or_without_a_model_there_is_reloaded_too(
    live: LiveNode,
) -> None:
    assert await reloaded(live, "quick") == ""
    assert await reloaded(live, "wrapped") == ""


async def test_a_model_that_loads_anew_nowhere_stays_with_its_handler(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await warmed(live, "wrapped", 2)

    async def fails(part: SliceClient, function: str, timeout_s: float) -> None:
        raise Fault(f"{function} is broken")

    monkeypatch.setattr(SliceClient, "reload", fails)
    assert await reloaded(live, "wrapped") == "wrapped is broken"
    assert not live.told(InstanceGone)
    await live.payload("r1", b"x")
    live.node.order(start("t1", "wrapped", job("r1")))
    await live.tells(TaskFinished)


async def test_where_alone_a_model_does_not_load_anew_it_is_unloaded(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new handler may want another model than the old one."""
    await warmed(live, "wrapped", 2)
    really, second = SliceClient.reload, live.servers[1].address

    async def fails_there(part: SliceClient, function: str, timeout_s: float) -> None:
        if part.address == second:
            raise Fault(f"{function} is broken")
        await really(part, function, timeout_s)

    monkeypatch.setattr(SliceClient, "reload", fails_there)
    assert await reloaded(live, "wrapped") == "wrapped is broken"
    gone = await live.tells(InstanceGone)
    assert (gone.slice, gone.function, gone.reason) == (1, "wrapped", "wrapped is broken")
    assert not live.servers[1].repository.is_ready("wrapped")
    assert not live.told(TaskFailed)
