"""Processes of our own that have slices: emulated ones, all in one process, or a Triton each.

They can be started again when they have ended, and never outlive the invoker.
"""

import asyncio
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from esg.errors import Fault
from esg.invoker.slices.directory import SliceDirectory
from esg.runtime.rpc.addresses import READY_FILE
from esg.runtime.settings_file import environment
from esg.runtime.slice_setting import Emulated
from esg.runtime.tether import tied

START_S = 60.0
STOP_S = 10.0
POLL_S = 0.01


class SliceProcess(ABC):
    """One process, once it is started."""

    what = "the process"

    def __init__(self) -> None:
        self.addresses: tuple[str, ...] = ()
        self._process: asyncio.subprocess.Process | None = None
        self._has_group = False
        """Whether its process group may still be there. Its number is then its own; later it may
        be a stranger's."""

    async def start(self) -> tuple[str, ...]:
        """Start it, wait until it answers, and say where its slices are."""
        try:
            self.addresses = await self._started()
        except BaseException:
            await self.stop()
            raise
        return self.addresses

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def has_ended(self) -> bool:
        return self._running.returncode is not None

    async def ended(self) -> int:
        """Wait until the process is gone, for whatever reason; its exit code."""
        code = await self._running.wait()
        self._end_children()
        return code

    async def stop(self) -> None:
        """Let it finish, but not for ever."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self.ended(), STOP_S)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it now."""
        if self._running.returncode is None:
            self._running.kill()
        await self.ended()

    def _end_children(self) -> None:
        """A server that was killed leaves the processes of its models behind; one that computes
        would not even notice."""
        if not self._has_group:
            return
        self._has_group = False
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    @abstractmethod
    async def _started(self) -> tuple[str, ...]:
        """Run it, and wait until it answers."""

    async def _run(
        self, command: Sequence[str], environ: Mapping[str, str], log: IO[bytes] | None = None
    ) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *tied(command),
            env={**os.environ, **environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self._has_group = True

    async def _pause(self, limit: float) -> None:
        """While it is not ready: a moment, if it still can be."""
        code = self._running.returncode
        if code is not None:
            raise Fault(f"{self.what} ended with code {code} before it was ready; {self._log()}")
        if asyncio.get_running_loop().time() > limit:
            raise Fault(f"{self.what}: not ready after {START_S:g} s; {self._log()}")
        await asyncio.sleep(POLL_S)

    def _log(self) -> str:
        return "the log says why"

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "started"
        return self._process


class EmulatedSlices(SliceProcess):
    """The emulated slices of a node, with the settings of this process."""

    what = "the process of the emulated slices"

    def __init__(self, wanted: Emulated, directory: SliceDirectory) -> None:
        super().__init__()
        self._wanted = wanted
        self._directory = directory

    async def _started(self) -> tuple[str, ...]:
        ready = self._directory.path / "addresses"
        ready.unlink(missing_ok=True)
        settings = environment("invoker", {"slices": str(self._wanted)})
        limit = asyncio.get_running_loop().time() + START_S
        command = [sys.executable, "-m", "esg.invoker.emulated", str(self._directory.path)]
        await self._run(command, {**settings, READY_FILE: str(ready)})
        while not ready.exists():
            await self._pause(limit)
        return tuple(ready.read_text("utf-8").split(","))
