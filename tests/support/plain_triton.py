"""A Triton server as others run it: with a model repository, all models loaded, on a port."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from tritonclient.grpc import service_pb2 as wire
from tritonclient.grpc import service_pb2_grpc as wire_grpc

from esg.invoker.triton.install import find_triton
from tests.deploy.engine import free_ports
from tests.support.waiting import LIMIT_S, wait_until


@contextmanager
def plain_triton(repository: Path, folder: Path) -> Iterator[str]:
    """Its address."""
    triton = find_triton("")
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True)
    for file in triton.python_backend:
        (backend / file.name).symlink_to(file.absolute())
    (port,) = free_ports(1)
    command = [
        str(triton.server),
        f"--model-repository={repository}",
        f"--backend-directory={folder / 'backends'}",
        "--disable-auto-complete-config",
        "--allow-http=false",
        "--allow-metrics=false",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={port}",
        f"--backend-config=python,shm-region-prefix-name=plain{port}",
        "--pinned-memory-pool-byte-size=0",
        "--exit-timeout-secs=5",
    ]
    log = folder / "log"
    with log.open("wb") as words:
        server = subprocess.Popen(
            command, env={**os.environ, **triton.environ}, stdout=words, stderr=words
        )
    try:
        address = f"127.0.0.1:{port}"
        wait_until(lambda: server.poll() is not None or _ready(address))
        assert server.poll() is None, log.read_text("utf-8", "replace")[-3000:]
        yield address
    finally:
        server.terminate()
        server.wait(LIMIT_S)


def _ready(address: str) -> bool:
    async def asked() -> bool:
        async with grpc.aio.insecure_channel(address) as link:
            stub = wire_grpc.GRPCInferenceServiceStub(link)
            try:
                return bool((await stub.ServerReady(wire.ServerReadyRequest(), timeout=1)).ready)
            except grpc.aio.AioRpcError:
                return False

    return asyncio.run(asked())
