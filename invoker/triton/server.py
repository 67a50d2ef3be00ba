"""A Triton server as a process of our own, for one slice.

It listens on a Unix socket in its node's private directory, and on no port: whoever can call it may
do with it what they like. Models are loaded only when told (explicit model control), with the
config that their folder has.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from esg.invoker.slices.directory import SOCKET, SliceDirectory
from esg.invoker.slices.processes import START_S, SliceProcess
from esg.invoker.triton.install import Triton

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
        socket = self._directory.socket(self._index)
        socket.unlink(missing_ok=True)
        limit = asyncio.get_running_loop().time() + START_S
        with self._file.open("ab") as log:
            await self._run(self._command(), self._environ, log)
        while not await _listens(socket):
            await self._pause(limit)
        return (f"unix:{socket}",)

    def _command(self) -> list[str]:
        options: dict[str, object] = {
            "id": self._name,
            "model-repository": self._directory.path / MODELS,
            "model-control-mode": "explicit",
            "disable-auto-complete-config": None,
            "grpc-address": f"unix:{self._directory.path / SOCKET}",
            "grpc-port": self._index + 1,  # the end of the socket's name
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


async def _listens(socket: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _option(key: str, value: object) -> str:
    return f"--{key}" if value is None else f"--{key}={value}"
