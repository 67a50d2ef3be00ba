"""Starting gateways: in this loop, or as processes."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from esg.gateway.__main__ import main
from esg.runtime.rpc.addresses import READY_FILE
from esg.runtime.settings import CommonSettings
from esg.runtime.settings_file import Settings, environment
from tests.support.paths import ROOT
from tests.support.scripted_controller import PREFIX
from tests.support.waiting import LIMIT_S, until, wait_until


class Gateways:
    """Gateways in this loop, one controller for all of them."""

    def __init__(
        self, controller: str, redis_url: str, ready: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._controller = controller
        self.controller_port = int(controller.rpartition(":")[2])
        self._redis_url = redis_url
        self._ready = ready
        self._monkeypatch = monkeypatch
        self._running: list[tuple[asyncio.Task[None], asyncio.Event]] = []

    async def start(
        self, *, drain_s: float = 0.0, shared_data: Path | None = None, **settings: Any
    ) -> str:
        """Its address."""
        ready = self._ready / str(len(self._running))
        self._monkeypatch.setenv(READY_FILE, str(ready))
        variables = surroundings(self._controller, self._redis_url, drain_s, settings)
        if shared_data is not None:
            variables |= environment("common", {"shared_data": shared_data})
        given, stop = Settings(variables), asyncio.Event()
        task = asyncio.create_task(main(given, given.of(CommonSettings), stop))
        self._running.append((task, stop))
        await until(lambda: ready.exists() or task.done())
        if task.done():
            task.result()
        return ready.read_text("utf-8")

    def tell_to_stop(self) -> list[asyncio.Task[None]]:
        for _, stop in self._running:
            stop.set()
        return [task for task, _ in self._running]

    async def close(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*self.tell_to_stop())


def surroundings(
    controller: str, redis_url: str, drain_s: float, settings: dict[str, Any]
) -> dict[str, str]:
    """The environment of a gateway."""
    own = {"controller": controller, "port": 0, **settings}
    common = {"redis_url": redis_url, "key_prefix": PREFIX, "drain_s": drain_s}
    return {**environment("common", common), **environment("gateway", own)}


@contextmanager
def process(
    arguments: list[str], variables: dict[str, str], directory: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process of the mesh, and where it listens."""
    ready = directory / "ready"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ESG_")}
    with (directory / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env={**clean, **variables, READY_FILE: str(ready)},
            cwd=ROOT,
            stderr=log,
        )
    try:
        wait_until(lambda: ready.exists() or child.poll() is not None)
        assert child.poll() is None, (directory / "log").read_text("utf-8")
        yield child, ready.read_text("utf-8")
    finally:
        child.kill()
        child.wait(LIMIT_S)


@contextmanager
def playing_mesh(redis_url: str, directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A gateway as a process, its address, and a controller behind it that plays."""
    for name in ("controller", "gateway"):
        (directory / name).mkdir()
    scripted = ["tests.support.scripted_controller", redis_url]
    with process(scripted, {}, directory / "controller") as (_, controller):
        variables = surroundings(controller, redis_url, LIMIT_S, {})
        with process(["esg.gateway"], variables, directory / "gateway") as started:
            yield started
