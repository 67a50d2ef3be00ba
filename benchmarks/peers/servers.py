"""The peers: what they are, how they are started, and what they promise."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from benchmarks.closed_loop import NotAnswered
from benchmarks.live import children
from benchmarks.peers.callers import HOST, Caller, Server, http, three_models
from benchmarks.peers.environment import environment
from esg.errors import Fault
from esg.local.procfs import look, send

SERVED = Path(__file__).parent / "served"
START_S = 180.0
STOP_S = 20.0
POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server runs: its environment, a folder for its files, and ports that are free."""

    environment: Path
    folder: Path
    ports: tuple[int, ...]

    def program(self, name: str) -> str:
        return str(self.environment / "bin" / name)


@dataclass(frozen=True, slots=True)
class Promises:
    """What a request may rely on."""

    durable: str
    deadline: str
    batching: str


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    title: str
    requirements: tuple[str, ...]
    command: Callable[[Place], list[str]]
    caller: Callable[[Place], AbstractAsyncContextManager[Caller]]
    promises: Promises
    environment: str = ""
    """The one of another peer, if they share it."""
    environ: Callable[[Place], dict[str, str]] = field(default=lambda place: {})


def _mlserver(place: Place) -> list[str]:
    for number in (1, 2, 3):
        model = place.folder / f"stage{number}"
        model.mkdir()
        settings = {"name": model.name, "implementation": "mlserver_app.NoOp"}
        (model / "model-settings.json").write_text(json.dumps(settings))
    return [place.program("mlserver"), "start", str(place.folder)]


def _ray(place: Place) -> list[str]:
    return [
        place.program("python"),
        str(SERVED / "ray_app.py"),
        str(place.ports[0]),
        str(place.folder),
    ]


def _ray_throughput(place: Place) -> dict[str, str]:
    """As "Enable High Throughput on Ray Serve" in Ray's documentation says: both switches. The
    rest is where HAProxy keeps its files and ports, which are fixed otherwise."""
    files = {
        "CONFIG_FILE_LOC": "haproxy.cfg",
        "SOCKET_PATH": "admin.sock",
        "SERVER_STATE_BASE": ".",
        "SERVER_STATE_FILE": "server-state",
    }
    return {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(place.ports[1]),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(place.ports[2]),
        **{f"RAY_SERVE_HAPROXY_{k}": str(place.folder / name) for k, name in files.items()},
    }


RAY = ("ray[serve]==2.60.0",)
RAY_PROMISES = Promises("no", "one timeout for the cluster", "where a stage asks for it")

PEERS = (
    Peer(
        "ray-serve",
        "Ray Serve 2.60.0",
        RAY,
        _ray,
        lambda place: http(place.ports[0], "/"),
        RAY_PROMISES,
    ),
    Peer(
        "ray-serve-throughput",
        "Ray Serve 2.60.0, throughput-optimised",
        RAY,
        _ray,
        lambda place: http(place.ports[0], "/"),
        RAY_PROMISES,
        environment="ray-serve",
        environ=_ray_throughput,
    ),
    Peer(
        "bentoml",
        "BentoML 1.4.39",
        ("bentoml==1.4.39",),
        lambda place: [
            *(place.program("bentoml"), "serve", "bento_app:Pipeline"),
            *("--host", HOST, "--port", str(place.ports[0])),
        ],
        lambda place: http(place.ports[0], "/run", key="text"),
        Promises("no", "a timeout for each service", "where a stage asks for it"),
    ),
    Peer(
        "mlserver",
        "MLServer 1.7.1",
        # Its workers do not start with a newer uvloop, which makes no event loop unasked
        ("mlserver==1.7.1", "uvloop==0.21.0"),
        _mlserver,
        lambda place: three_models(place.ports[1]),
        Promises("no", "no", "where a model asks for it"),
        environ=lambda place: {
            "MLSERVER_HOST": HOST,
            "MLSERVER_HTTP_PORT": str(place.ports[0]),
            "MLSERVER_GRPC_PORT": str(place.ports[1]),
            "MLSERVER_METRICS_PORT": str(place.ports[2]),
        },
    ),
)
OUR_PROMISES = Promises(
    "accepted is answered, exactly once", "each request's own", "as far as deadlines allow"
)


def free_ports(count: int) -> tuple[int, ...]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = tuple(each.getsockname()[1] for each in sockets)
    for each in sockets:
        each.close()
    return ports


@asynccontextmanager
async def running(peer: Peer) -> AsyncIterator[Server]:
    """A peer, from its first right answer on."""
    made = environment(peer.environment or peer.name, peer.requirements)
    home = made / "home"
    home.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="peer", ignore_cleanup_errors=True) as folder:
        place = Place(made, Path(folder), free_ports(3))
        environ = {
            **os.environ,
            "HOME": str(home),  # what they leave behind is left here
            "PATH": f"{made / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(SERVED),
            "RAY_USAGE_STATS_ENABLED": "0",
            "BENTOML_DO_NOT_TRACK": "True",
            **peer.environ(place),
        }
        log = made / f"{peer.name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *peer.command(place), cwd=SERVED, env=environ, stdout=output, stderr=output
            )
        try:
            async with peer.caller(place) as call:
                await _answers(call, process, log)
                yield Server(call, [process.pid, *children(process.pid)])
        finally:
            await _stop(process)


async def _answers(call: Caller, process: asyncio.subprocess.Process, log: Path) -> None:
    limit = monotonic() + START_S
    while True:
        with suppress(NotAnswered):
            if await call(b"ready?") == b"ready?":
                return
        if process.returncode is not None or monotonic() > limit:
            raise Fault(f"it did not start; {_end(log)}")
        await asyncio.sleep(POLL_S)


def _end(log: Path) -> str:
    return f"{log} ends with: {log.read_text(errors='replace')[-500:]}"


async def _stop(process: asyncio.subprocess.Process) -> None:
    """It and all that it started: whatever does not end by itself is killed."""
    started = [found for pid in (process.pid, *children(process.pid)) if (found := look(pid))]
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), STOP_S)
    for one in started:
        send(one.pid, one.began, signal.SIGKILL)
    await process.wait()
