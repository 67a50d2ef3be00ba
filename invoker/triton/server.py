"""A Triton server as a process of our own, for one slice.

It listens on loopback, on a port that was free a moment ago; if somebody else was quicker it ends,
and is started again with another. Models are loaded only when told (explicit model control), with
the config that their folder has.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from esg.errors import Fault
from esg.invoker.slices.client import server_name
from esg.invoker.slices.directory import SliceDirectory
from esg.invoker.slices.processes import START_S, SliceProcess
from esg.invoker.triton.install import Triton

HOST = "127.0.0.1"
MODELS, BACKENDS = "models", "backends"
LOG_LINES = 5


def link_backends(triton: Triton, directory: SliceDirectory) -> None:
    """Bring the files of the Python backend together, where they are not yet."""
    if triton.python_backend:
        backend = directory.path / BACKENDS / "python"
        backend.mkdir(parents=True)
        for file in triton.python_backend:
            (backend / file.name).symlink_to(file.absolute())


class TritonServer(SliceProcess):
    """`environ` says which device it has."""

    def __init__(
        self,
        index: int,
        triton: Triton,
        directory: SliceDirectory,
        log: Path,
        environ: Mapping[str, str],
    ) -> None:
        super().__init__()
        self.what = f"the Triton server of slice {index}"
        self._index = index
        self._name = directory.memory_name(index)
        self._triton = triton
        self._directory = directory
        self._file = log
        self._environ = {**triton.environ, **environ}

    async def _started(self) -> tuple[str, ...]:
        self._directory.clear_memory(self._index)
        port = _free_port()
        limit = asyncio.get_running_loop().time() + START_S
        with self._file.open("ab") as log:
            await self._run(self._command(port), self._environ, log)
        while not await _listens(port):
            await self._pause(limit)
        address = f"{HOST}:{port}"
        name = await server_name(address, START_S)
        if name != self._name:
            raise Fault(f"{self.what}: {name} has taken its port, {port}")
        return (address,)

    def _command(self, port: int) -> list[str]:
        options: dict[str, object] = {
            "id": self._name,
            "model-repository": self._directory.path / MODELS,
            "model-control-mode": "explicit",
            "disable-auto-complete-config": None,
            "grpc-address": HOST,
            "grpc-port": port,
            "allow-http": "false",
            "allow-metrics": "false",
            "backend-config": f"python,shm-region-prefix-name={self._name}-python-",
            "pinned-memory-pool-byte-size": 0,
            "exit-timeout-secs": 5,
            "log-info": "false",
        }
        if self._triton.python_backend:
            options["backend-directory"] = self._directory.path / BACKENDS
        return [str(self._triton.server), *(_option(key, value) for key, value in options.items())]

    def _log(self) -> str:
        """The end of what it said, in one line."""
        with suppress(OSError):
            lines = self._file.read_text("utf-8", "replace").splitlines()
            said = " | ".join(line for line in lines[-LOG_LINES:] if line)
            return f"its log, {self._file}, ends with: {said}"
        return f"its log is {self._file}"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _option(key: str, value: object) -> str:
    return f"--{key}" if value is None else f"--{key}={value}"
