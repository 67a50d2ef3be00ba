"""How long a controller takes to start again after many changes of applications.

    .venv/bin/python -m benchmarks.recovery.changes

A hundred applications of 32 stages are registered, or one of them is updated a thousand times; then
the controller is killed and started again on its journal. The aim is three seconds.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.catalog import load
from esg.runtime.rpc.addresses import READY_FILE
from esg.runtime.rpc.channels import channel
from esg.runtime.settings import CommonSettings
from esg.runtime.settings_file import environment

APPLICATIONS = 100
UPDATES = 1000
STAGES = 32
EDGES = 3


def definition(name: str, *, update: bool = False) -> wire.PutApplicationRequest:
    functions = sorted(load(CommonSettings()).functions)
    stages = [
        model.Stage(
            name=f"s{number}",
            function=functions[number % len(functions)],
            after=[f"s{before}" for before in range(max(0, number - EDGES), number)],
        )
        for number in range(STAGES)
    ]
    return wire.PutApplicationRequest(name=name, stages=stages, slo_scale=2.0, update=update)


@contextmanager
def controller(folder: Path) -> Iterator[tuple[str, float]]:
    """A controller on the journal in a folder: its address, and what it took until it served. It is
    killed at the end of the block."""
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    settings = {"journal": folder / "journal", "port": 0, "max_changes_per_minute": 10**6}
    chosen = environment("controller", settings) | environment("common", {"log_level": "error"})
    began_s = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "esg.controller"],
        env={**os.environ, **chosen, READY_FILE: str(ready)},
    )
    try:
        while not ready.exists():
            if process.poll() is not None:
                raise SystemExit("the controller did not start")
            sleep(0.01)
        yield ready.read_text("utf-8"), perf_counter() - began_s
    finally:
        process.kill()
        process.wait()


async def changed(address: str, changes: list[wire.PutApplicationRequest]) -> None:
    async with channel(address) as link:
        stub = wire_grpc.ControllerStub(link)
        for change in changes:
            await stub.PutApplication(change)


def measured(what: str, changes: list[wire.PutApplicationRequest]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        with controller(folder) as (address, empty_s):
            began_s = perf_counter()
            asyncio.run(changed(address, changes))
            each_ms = (perf_counter() - began_s) / len(changes) * 1000
        with controller(folder) as (_, again_s):
            print(
                f"{what}: {each_ms:.1f} ms each; a start takes {again_s:.2f} s, "
                f"on an empty journal {empty_s:.2f} s"
            )


def main() -> None:
    many = [definition(f"a{number}") for number in range(APPLICATIONS)]
    measured(f"{APPLICATIONS} applications of {STAGES} stages", many)
    updates = [definition("a", update=number > 0) for number in range(UPDATES + 1)]
    measured(f"{UPDATES} updates of one", updates)


if __name__ == "__main__":
    main()
