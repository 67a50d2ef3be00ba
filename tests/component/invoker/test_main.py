"""A whole invoker as a process, with a controller that says what it is told to."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from esg.core.emulated_output import emulated_output
from esg.core.journal.format import functions_digest
from esg.core.messages.commands import DiscardData
from esg.core.messages.task_order import Output
from esg.runtime.catalog import load
from esg.runtime.settings import CommonSettings
from esg.storage.local_store import LocalStore
from esg.storage.redis_store import RedisStore
from tests.support.emulated_process import INPUT_BYTES, write_catalog
from tests.support.live_node import job, start
from tests.support.scripted_invoker_controller import Attachment, ScriptedController, serving
from tests.support.waiting import LIMIT_S, until


@dataclass
class Invoker:
    """The process, and what it shows of itself."""

    process: asyncio.subprocess.Process
    controller: ScriptedController
    folder: Path
    redis_url: str

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def is_ready(self) -> bool:
        return (self.folder / "ready").exists()

    async def joined(self) -> Attachment:
        attachment = await self.controller.attached()
        attachment.welcome(start_afresh=True)
        await attachment.hears("joined")
        return attachment

    async def runs(self, attachment: Attachment) -> None:
        """Have it run a task whose output stays there."""
        remote = RedisStore(self.redis_url, prefix="esg", ttl_s=600)
        await remote.put("r1", "", b"picture")
        attachment.order(start("t1", "quick", job("r1")))
        await attachment.hears("finished")
        await remote.close()

    async def ends(self) -> tuple[int | None, str]:
        """Its exit code, and what it logged."""
        async with asyncio.timeout(LIMIT_S):
            _, log = await self.process.communicate()
        return self.process.returncode, log.decode()


@asynccontextmanager
async def running(
    controller: ScriptedController, redis_url: str, folder: Path
) -> AsyncIterator[Invoker]:
    async with serving(controller) as address:
        settings = {
            "ESG_CATALOG": str(write_catalog(folder)),
            "ESG_REDIS_URL": redis_url,
            "ESG_READY_FILE": str(folder / "ready"),
            "ESG_INVOKER_NODE": "i0",
            "ESG_INVOKER_VCPUS": "2",
            "ESG_INVOKER_SLICES": "emulated:2",
            "ESG_INVOKER_STORE": str(folder / "store"),
            "ESG_INVOKER_STORE_MEMORY_MB": "0",  # to be seen from outside
            "ESG_INVOKER_CONTROLLER": address,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "esg.invoker"),
            env={**os.environ, **settings},
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield Invoker(process, controller, folder, redis_url)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.fixture
async def invoker(redis_url: str, tmp_path: Path) -> AsyncIterator[Invoker]:
    async with running(ScriptedController(), redis_url, tmp_path) as found:
        yield found


async def test_invoker_process_is_ready_once_it_has_joined(invoker: Invoker) -> None:
    attachment = await invoker.controller.attached()
    assert not invoker.is_ready
    greeting = attachment.notes[0].greeting
    catalog = load(CommonSettings(catalog=str(invoker.folder / "catalog.toml")))
    assert (greeting.invoker, greeting.catalog) == ("i0", functions_digest(catalog))
    attachment.welcome(start_afresh=True)
    await until(lambda: invoker.is_ready)
    inventory = (await attachment.hears("joined")).joined
    assert (inventory.vcpus, [part.memory_mb for part in inventory.slices]) == (2, [1000, 1000])
    await invoker.runs(attachment)
    output = LocalStore(invoker.store).get("r1", "stage")
    assert output == emulated_output("quick", [b"picture"], INPUT_BYTES)


async def test_told_to_stop_it_leaves_when_nobody_needs_its_data(invoker: Invoker) -> None:
    attachment = await invoker.joined()
    await invoker.runs(attachment)
    invoker.process.send_signal(signal.SIGTERM)
    await attachment.hears("leaving")
    assert LocalStore(invoker.store).usage()[0] == 1
    attachment.order(DiscardData(invoker="i0", request="r1"))
    code, log = await invoker.ends()
    assert (code, "Traceback" in log) == (0, False)
    assert attachment.ended
    assert list(invoker.store.iterdir()) == []


async def test_told_to_stop_before_it_has_joined_it_just_ends(invoker: Invoker) -> None:
    await invoker.controller.attached()
    invoker.process.send_signal(signal.SIGTERM)
    code, log = await invoker.ends()
    assert (code, "Traceback" in log) == (0, False)
    assert not invoker.is_ready


async def test_refused_by_the_controller_it_ends_with_the_words(
    redis_url: str, tmp_path: Path
) -> None:
    controller = ScriptedController()
    controller.refusals = [(grpc.StatusCode.INVALID_ARGUMENT, "i0 has other functions")]
    async with running(controller, redis_url, tmp_path) as invoker:
        code, log = await invoker.ends()
    assert code == 2
    assert log.endswith("error: invoker: i0 has other functions\n")


async def test_slices_whose_process_ends_are_started_again(invoker: Invoker) -> None:
    attachment = await invoker.joined()
    await invoker.runs(attachment)
    (child,) = children(invoker.process.pid)
    os.kill(child, signal.SIGKILL)

    def told(lost: bool) -> bool:
        found = [note.inventory for note in attachment.notes if note.HasField("inventory")]
        return bool(found) and {part.lost for part in found[-1].slices} == {lost}

    await until(lambda: told(lost=True))
    await until(lambda: told(lost=False))
    attachment.order(
        start("t2", "quick", job("r1", Output(stage="stage", invoker="i0")), stage="b")
    )
    await until(lambda: any(note.finished.task == "t2" for note in attachment.notes))
    invoker.process.send_signal(signal.SIGTERM)
    await attachment.hears("leaving")
    attachment.order(DiscardData(invoker="i0", request="r1"))
    code, log = await invoker.ends()
    assert (code, "slice lost" in log, "slice back" in log) == (0, True, True)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
