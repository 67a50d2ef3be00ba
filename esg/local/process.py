"""One process of a mesh on one machine: started, watched, stopped.

It is watched through a file descriptor (a pidfd), so that any event loop will do, and signalled
only while it is still ours to wait for, so that its pid cannot mean another process.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Any

from esg.errors import Fault, Rejected
from esg.local.procfs import look
from esg.runtime.tether import tied

REFUSED = 2
"""The exit code of a service that does not like its settings; the log's last line says why."""

TAIL_LINES = 12

Ask = Callable[[float], Awaitable[bool | None]]
"""Whether a process answers within so many seconds, whatever it says; None if nobody can tell."""
Line = AbstractAsyncContextManager[Ask]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, and how to find out that it is ready: `probe` gives its address, or None.

    `line` is a connection to that address, to ask whether it still answers.
    """

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    probe: Callable[[], Awaitable[str | None]]
    line: Callable[[str], Line]


class ProcessState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    ENDED = "ended"


class Process:
    def __init__(self, program: Program, on_end: Callable[["Process"], None]) -> None:
        self.program = program
        self.state = ProcessState.STARTING
        self.address = ""
        self.wanted = True
        """Whether it should be running: its end is news only then."""
        self.silent = False
        """Whether it was killed because it did not answer."""
        self.again_after_s: float | None = None
        """How long after its end it is started again, if it is."""
        self._on_end = on_end
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        with program.log.open("ab") as log:
            # In a session of its own, Ctrl-C on a terminal is heard by the supervisor alone
            self._popen = Popen(
                tied(program.command),
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                env=program.environ,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        seen = look(self.pid)
        self.began = 0 if seen is None else seen.began
        self._handle = os.pidfd_open(self.pid)
        self._loop.add_reader(self._handle, self._ended)

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def age_s(self) -> float:
        return self._loop.time() - self._began_s

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self._popen.returncode

    async def is_ready(self) -> bool:
        """Ask it; an end that came first is an error."""
        if self.state is ProcessState.ENDED:
            raise self.early_end()
        address = await self.program.probe()
        if address is not None and self.state is ProcessState.STARTING:
            self.address = address
            self.state = ProcessState.READY
        return self.state is ProcessState.READY

    async def stop(self, limit_s: float) -> None:
        """Let it finish what it has begun, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self.end(signal.SIGTERM)
        self.kill()

    async def end(self, number: signal.Signals) -> None:
        """Signal it, and wait until it has ended."""
        if self.state is not ProcessState.ENDED:
            self.state = ProcessState.STOPPING
            self.wanted = False
            self._popen.send_signal(number)
        await self._over.wait()

    def kill(self, *, wanted: bool = False) -> None:
        """End it now, with all that it started."""
        if self.state is not ProcessState.ENDED:
            self.wanted = wanted
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._ended()

    def _ended(self) -> None:
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        self._popen.wait()
        self.state = ProcessState.ENDED
        self._over.set()
        self._on_end(self)

    def end_text(self) -> str:
        """How it ended.

        A negative exit code is the number of a signal.
        """
        code = self.exit_code
        if self.silent:
            return "did not answer any more and was killed"
        if code is None or code >= 0:
            return f"ended with exit code {code}"
        return f"was ended by {signal.Signals(-code).name}"

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The end of its log."""
        text = self.program.log.read_text("utf-8", "replace")
        return "\n".join(text.splitlines()[-lines:])

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pid": self.pid,
            "began": self.began,
            "state": str(self.state),
            "address": self.address,
            "exit_code": self.exit_code,
        }

    def early_end(self) -> Exception:
        """A refusal is passed on as it is; anything else needs more of the story."""
        last = self.tail(lines=1)
        if self.exit_code == REFUSED and last.startswith("error: "):
            return Rejected(last.removeprefix("error: "))
        return Fault(
            f"{self.name} {self.end_text()} before the mesh was up; the end of its log "
            f"({self.program.log}):\n{self.tail()}"
        )
