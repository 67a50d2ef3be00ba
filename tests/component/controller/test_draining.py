"""A controller that is told to go answers everyone first."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.support.controller_peers import (
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    refusal_code,
    running_controller,
    submission,
)
from tests.support.waiting import LIMIT_S, until


async def test_a_controller_that_goes_takes_nothing_new_and_answers_the_rest() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
        controller.live.gateways.draining = True
        door.say(submission("r2"))
        (note,) = await door.hears("refused")
        assert refusal_code(note) is grpc.StatusCode.UNAVAILABLE
        node.say(finished(order.start.task))
        await controller.live.finish()
        await door.hears("result")


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], threading.Event]:
    """From when it is called, nothing is on disk until the event is set."""
    synced, sync = threading.Event(), os.fdatasync

    def slow(handle: int) -> None:
        assert synced.wait(LIMIT_S)
        sync(handle)

    def begin() -> threading.Event:
        monkeypatch.setattr(os, "fdatasync", slow)
        return synced

    return begin


async def test_a_controller_that_goes_waits_for_an_answer_that_is_being_written(
    tmp_path: Path, slow_disk: Callable[[], threading.Event]
) -> None:
    async with (
        running_controller(journal=str(tmp_path), sync_ms=1) as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
        synced = slow_disk()
        node.say(finished(order.start.task))
        await until(lambda: not controller.state.requests)
        finishing = asyncio.create_task(controller.live.finish())
        await asyncio.sleep(0)
        early = finishing.done()
        synced.set()
        await finishing
        await door.hears("result")
        assert not early
