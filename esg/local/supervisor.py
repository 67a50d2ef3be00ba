"""A whole mesh on one machine, as separate processes: what `esg up` runs, and tests and benchmarks.

    async with Mesh(MeshOptions(nodes=2, scale=0.1)) as mesh:
        ...  # mesh.gateway is its address

Redis starts first, then the controller, then gateways and nodes; each is ready when it says
so itself and its health service agrees. They are stopped the other way round, so that whatever is
under way can end: gateways take no more, the nodes finish, the controller hears of it. Nothing
is left behind but, in a directory that was named, logs, journal and what Redis was given. One that
dies after that is started again at its address, after a pause, as often as it takes; and so is one
that does not answer any more, which is killed first.

A mesh lives in one event loop, any loop. If its process is killed outright, the kernel ends the
children, and the next mesh in the same directory clears up.
"""

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from esg.errors import Fault, Rejected
from esg.local.health import check_redis
from esg.local.liveness import watch
from esg.local.options import Chosen, MeshOptions
from esg.local.process import Process, ProcessState, Program
from esg.local.procfs import look
from esg.local.programs import CONTROLLER, GATEWAY, REDIS, Programs
from esg.local.restart_policy import Revival
from esg.local.run_directory import RunDirectory
from esg.runtime.settings import ControllerSettings, GatewaySettings
from esg.suggest import did_you_mean

__all__ = ["Mesh", "MeshOptions", "Process", "ProcessState"]

START_LIMIT_S = 120.0
STOP_MARGIN_S = 5.0
"""What a process may take beyond the time it has to finish its work."""
POLL_S = 0.01


class Mesh:
    """Starts, watches and stops all processes of a mesh.

    `tell` hears of each process that has become ready or has ended. Without a directory, a
    temporary one is used, of which nothing is left.
    """

    def __init__(
        self,
        options: MeshOptions | None = None,
        directory: Path | None = None,
        *,
        tell: Callable[[Process], None] = lambda process: None,
    ) -> None:
        self._chosen = Chosen(options or MeshOptions())
        self._temporary = directory is None
        unheard_of = Path(tempfile.gettempdir()) / f"esg-{secrets.token_hex(6)}"
        self.directory = RunDirectory(directory or unheard_of)
        self._programs = Programs(self._chosen, self.directory)
        self._tell = tell
        self._all: dict[str, Process] = {}
        self._revivals: dict[str, Revival] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # that watch processes, or start them again
        self._up = False
        self._failure: Process | None = None  # of the start
        self._stop_limit_s = self._chosen.common.drain_s + STOP_MARGIN_S

    @property
    def gateway(self) -> str:
        """Where clients go."""
        return self._named(GATEWAY).address

    @property
    def gateways(self) -> list[str]:
        """The addresses of all gateways: any of them will do."""
        return [self._named(name).address for name in self._programs.gateways]

    @property
    def controller(self) -> str:
        return self._named(CONTROLLER).address

    @property
    def redis_url(self) -> str:
        return self._programs.redis_url

    @property
    def nodes(self) -> list[str]:
        return self._programs.nodes

    @property
    def processes(self) -> dict[str, int]:
        """The pids of what runs, by name: redis, controller, gateway, gateway1, ..., node0, ...;
        or node0-3, if four nodes share a process."""
        return {n: p.pid for n, p in self._all.items() if p.state is not ProcessState.ENDED}

    @property
    def journal(self) -> Path | None:
        """The directory that every event is written to."""
        named = self._chosen.settings.of(ControllerSettings).journal
        return Path(named) if named else None

    @property
    def client_env(self) -> Path | None:
        """Of a secure mesh: the file that tells a shell how to call it."""
        return self._programs.secure.client_env if self._programs.secure else None

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """All settings of the mesh, by section."""
        return self._chosen.document()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Return when all are ready; if one cannot be, none is left."""
        self.directory.claim(resume=self._chosen.resume)
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await self._start_all()
        except TimeoutError:
            slow = [p.name for p in self._all.values() if p.state is ProcessState.STARTING]
            raise Fault(
                f"{', '.join(slow)}: not ready after {START_LIMIT_S:g} s; the end of a log:\n"
                f"{self._all[slow[0]].tail()}"
            ) from None
        finally:
            if not self._up:
                self._end()
                await self._drop_tasks()

    async def _start_all(self) -> None:
        programs = self._programs
        secure = programs.secure
        if secure is not None:
            secure.make(self._chosen.settings.of(GatewaySettings).host)
        if programs.has_own_redis:
            await self._start([programs.redis()])
        else:
            await check_redis(programs.redis_url)
        await self._start([programs.controller()])
        nodes = [programs.node(name, self.controller) for name in programs.node_processes]
        gateways = [programs.gateway(name, self.controller) for name in programs.gateways]
        await self._start([*gateways, *nodes])
        if secure is not None:
            secure.say_how_to_call(*self.gateways)
        self._write(up=True)
        self._up = True

    async def _start(self, programs: Iterable[Program]) -> None:
        begun = [Process(program, self._ended) for program in programs]
        for process in begun:
            if process.name in self._all:
                process.address = self._all[process.name].address
        self._all |= {process.name: process for process in begun}
        if self._up:
            self._write_again()
        else:
            self._write()
        while begun:
            ready = [process for process in begun if await process.is_ready()]
            for process in ready:
                self._go_on_with(watch(process, process.program.line(process.address)))
                self._tell(process)
            begun = [process for process in begun if process not in ready]
            if self._failure is not None and not self._up:
                raise self._failure.early_end()
            if ready:
                self._write_again()
            else:
                await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """Let everything finish, the last to start first; then leave nothing behind."""
        self._up = False
        await self._drop_tasks()
        nodes = self._programs.node_processes
        try:
            for names in (self._programs.gateways, nodes, [CONTROLLER], [REDIS]):
                there = [self._all[name] for name in names if name in self._all]
                await asyncio.gather(*(process.stop(self._stop_limit_s) for process in there))
        finally:
            self._end()

    def stop_now(self) -> None:
        """End everything at once, with whatever is under way."""
        self._up = False
        for process in reversed(self._all.values()):
            process.kill()

    async def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End one process, as a crash would, or with another signal; the rest goes on."""
        await self._named(name).end(number)

    async def restart(self, name: str) -> None:
        """Start a process again that has ended, at its old address; return when it is ready."""
        former = self._named(name)
        if former.state is not ProcessState.ENDED:
            raise Rejected(f"{name} is still running; kill it first")
        async with asyncio.timeout(START_LIMIT_S):
            await self._start([self._programs.again(former.program, former.address)])

    def _named(self, name: str) -> Process:
        if name not in self._all:
            raise Rejected(did_you_mean("process", name, self._all))
        return self._all[name]

    def _ended(self, process: Process) -> None:
        self._write_again()
        if process.wanted and self._up:
            process.again_after_s = self._revival(process).pause_s(process.age_s)
            self._go_on_with(self._revive(process, process.again_after_s))
        elif process.wanted and self._failure is None:
            self._failure = process
        self._tell(process)

    def _go_on_with(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _revival(self, process: Process) -> Revival:
        return self._revivals.setdefault(process.name, Revival())

    async def _revive(self, former: Process, pause_s: float) -> None:
        """Start a process again. If it dies before it is ready, that is one more death."""
        begun = False
        while not begun:
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(START_LIMIT_S):
                    await self._start([self._programs.again(former.program, former.address)])
                begun = True
            except TimeoutError:
                self._named(former.name).kill(wanted=True)
                begun = True
            except (Fault, Rejected):
                begun = True  # and has ended, whereupon its next start is due already
            except OSError:  # no process could be made; what that wants for may come back
                pause_s = self._revival(former).pause_s(0.0)

    def _end(self) -> None:
        self.stop_now()
        self.directory.release(keep=not self._temporary)
        if self._temporary:
            shutil.rmtree(self.directory.path, ignore_errors=True)

    def _write_again(self) -> None:
        """Without room for it, the record stays as it was: processes are seen to all the same."""
        with suppress(OSError, Rejected):
            self._write(up=self._up)

    def _write(self, *, up: bool = False) -> None:
        """The record, for whoever wants to know from outside."""
        me = look(os.getpid())
        assert me is not None
        self.directory.write(
            {
                "supervisor": {"pid": me.pid, "began": me.began},
                "up": up,
                "gateway": self._all[GATEWAY].address if GATEWAY in self._all else "",
                "gateways": [
                    self._all[name].address for name in self._programs.gateways if name in self._all
                ],
                "controller": self._all[CONTROLLER].address if CONTROLLER in self._all else "",
                "nodes": self.nodes,
                "stop_limit_s": self._stop_limit_s,
                "settings": self.settings,
                "processes": [self._document(process) for process in self._all.values()],
            }
        )

    def _document(self, process: Process) -> dict[str, Any]:
        """A process as the record has it, with the nodes that it runs."""
        nodes = self._programs.node_processes.get(process.name, [])
        return {**process.document(), "nodes": nodes}
