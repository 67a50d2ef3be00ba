"""A mesh that runs until it is told to stop, and tells what becomes of its processes.

The first Ctrl-C (or SIGTERM) lets what is under way end; the second does not wait.

`python -m esg.cli.bringup.foreground DIRECTORY` is the same for a mesh in the background. Its
options come on the standard input, as JSON: a command line can be read by everyone, and a URL may
hold a password.
"""

import asyncio
import json
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from esg.console.catalog import read_catalog
from esg.console.formatting import counted, joined
from esg.console.terminal import terminal
from esg.errors import Fault, Rejected
from esg.local.run_directory import RunDirectory
from esg.local.supervisor import Mesh, MeshOptions, Process, ProcessState
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.runtime.slice_setting import Addresses, Auto, Cpu, Emulated, Gpu, Mig, parse_slices

INDENT = "    "
NAME_WIDTH = 11


def run_mesh(options: MeshOptions, directory: Path) -> int:
    """Run a mesh, and give the exit code: 0 if it was told to stop, 1 if it could not go on."""
    return asyncio.run(_run(options, directory))


async def _run(options: MeshOptions, directory: Path) -> int:
    view = ForegroundView(terminal())
    mesh = Mesh(options, directory, tell=view.tell)
    told = asyncio.Event()

    def stop() -> None:
        if told.is_set():
            mesh.stop_now()
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    try:
        return await _until_told(mesh, view, told)
    except Fault as error:
        view.say(f"error: {error}")
        return 1


async def _until_told(mesh: Mesh, view: "ForegroundView", told: asyncio.Event) -> int:
    stopping = asyncio.create_task(told.wait())
    starting = asyncio.create_task(mesh.start())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        view.say("stopped before it was up")
        return 0
    starting.result()
    try:
        view.up(mesh)
        await stopping
        view.say("\nstopping: finishing requests; Ctrl-C again to stop now")
    finally:
        await mesh.stop()
    view.say(down_text(mesh.directory.logs, mesh.journal))
    left = mesh.directory.left_behind
    if left is None:
        return 0
    view.say(left_text(mesh.directory, left), "bold red")
    return 1


class ForegroundView:
    """Prints one line per process, and whatever else there is to say. A reader may leave; we go
    on."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    def say(self, text: str, style: str | None = None) -> None:
        with suppress(OSError):
            self._screen.print(text, style=style, soft_wrap=True)

    def tell(self, process: Process) -> None:
        name = f"{process.name:{NAME_WIDTH}}"
        if process.state is ProcessState.READY:
            self.say(f"{name} ready    pid {process.pid:<8} {process.address}")
        elif not process.wanted:
            self.say(f"{name} stopped")
        elif process.address:
            self._tell_of_death(process)

    def _tell_of_death(self, process: Process) -> None:
        tail = "\n".join(f"{INDENT}{line}" for line in process.tail().splitlines())
        when = "" if process.again_after_s is None else f" after {process.again_after_s:g} s"
        self.say(f"{process.name} {process.end_text()}: restarting{when}", "bold red")
        self.say(f"{tail}\n{INDENT}(the end of {process.program.log})")

    def up(self, mesh: Mesh) -> None:
        settings = mesh.settings
        size = f"{settings['invoker']['vcpus']} vCPUs, {slices_text(settings['invoker']['slices'])}"
        self.say(
            f"\nmesh is up: {gateways_text(mesh.gateways)}; "
            f"{counted(len(mesh.nodes), 'node')} of {size}; "
            f"policy {settings['controller']['policy']}; logs in {mesh.directory.logs}",
            "bold green",
        )
        self.say(
            f"{try_text(','.join(mesh.gateways), mesh.client_env, settings['common']['catalog'])}\n"
        )


def left_text(directory: RunDirectory, data: Path) -> str:
    """Where the only copy of Redis' data is, and what to do about it."""
    reason = f": {directory.not_kept}" if directory.not_kept else ""
    named = f"--dir {shlex.quote(str(directory.path))}"
    return (
        f"Redis' data could not be copied to {directory.redis}{reason}; it is still in {data}, "
        f"until this machine restarts. Make room and run esg down {named} again, or resume with "
        f"esg up --resume {named}; esg down --discard {named} deletes it"
    )


def slices_text(slices: str) -> str:
    """
    >>> slices_text("emulated:7"), slices_text("10.0.0.1:8001,10.0.0.2:8001")
    ('7 emulated vGPUs', '2 Triton servers')
    >>> slices_text("cpu:2"), slices_text("mig")
    ('2 Triton servers', 'a Triton server on every MIG instance')
    >>> slices_text("emulated:4g.40gb+3g.40gb"), slices_text("cpu:1,cpu-2")
    ('emulated slices 4g.40gb+3g.40gb', 'Triton servers 1 and cpu-2 in turn')
    """
    match parse_slices(slices):
        case Emulated(layouts) as wanted:
            if layouts.isdecimal():
                return counted(wanted.count, "emulated vGPU")
            return f"emulated slices {in_turn_text(wanted)}"
        case Cpu(layouts) as wanted:
            if layouts.isdecimal():
                return counted(wanted.count, "Triton server")
            return f"Triton servers {in_turn_text(wanted)}"
        case Mig():
            return "a Triton server on every MIG instance"
        case Gpu():
            return "a Triton server on every GPU"
        case Auto():
            return "a Triton server on every MIG instance, or GPU without MIG"
        case Addresses(addresses):
            return counted(len(addresses), "Triton server")


def in_turn_text(slices: Emulated | Cpu) -> str:
    """
    >>> in_turn_text(Emulated("7")), in_turn_text(Emulated("7,4g.40gb+3g.40gb"))
    ('7', '7 and 4g.40gb+3g.40gb in turn')
    """
    return joined(slices.each) + " in turn" * (len(slices.each) > 1)


def gateways_text(addresses: list[str]) -> str:
    """
    >>> gateways_text(["127.0.0.1:50051"]), gateways_text(["127.0.0.1:50051", "127.0.0.1:50052"])
    ('gateway 127.0.0.1:50051', 'gateways 127.0.0.1:50051, 127.0.0.1:50052')
    """
    return f"gateway{'s' * (len(addresses) > 1)} {', '.join(addresses)}"


def try_text(gateway: str, client_env: Path | None, catalog: str) -> str:
    """A first command. The usual gateway need not be named, nor those that a file tells of."""
    application = next(iter(read_catalog(Path(catalog) if catalog else None).applications))
    ready = ""
    if client_env is not None:
        ready = f". {shlex.quote(str(client_env))} && "
    elif gateway != DEFAULT_GATEWAY:
        ready = f"ESG_GATEWAY={shlex.quote(gateway)} "
    return f"try: {ready}esg submit {shlex.quote(application)} FILE"


def down_text(logs: Path, journal: Path | None) -> str:
    """Where to read what happened in a mesh that has ended."""
    written = f"; journal: {journal}" if journal is not None and journal.exists() else ""
    return f"the mesh is down; logs: {logs}{written}"


def main(arguments: list[str]) -> int:
    (directory,) = arguments
    try:
        return run_mesh(MeshOptions.read(json.load(sys.stdin)), Path(directory))
    except Rejected as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
