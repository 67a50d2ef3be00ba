"""What is done to a mesh under load."""

import asyncio
import os
import re
import resource
import signal
from contextlib import suppress
from pathlib import Path

from redis.asyncio import Redis

from esg.client import AsyncClient
from esg.local.procfs import in_session
from esg.local.supervisor import ProcessState
from esg.runtime.journal_files import segment_files
from tests.chaos.conftest import Scene
from tests.support.cable import Cable, CabledMesh
from tests.support.mesh_expectations import status_of
from tests.support.waiting import until


async def dies(scene: Scene, name: str) -> None:
    """Kill a process outright, and wait until it is back."""
    scene.keys_may_expire |= name.startswith("gateway")
    pid = scene.mesh.processes[name]
    os.kill(pid, signal.SIGKILL)

    async def back() -> bool:
        record = scene.mesh.directory.read()
        assert record is not None
        states = {p["name"]: (p["pid"], p["state"]) for p in record["processes"]}
        return states[name][0] != pid and states[name][1] == "ready"

    await until(back)


async def snapshot_is_damaged(scene: Scene) -> None:
    """Flip a bit in the snapshot that the controller would start again from, and kill it. It starts
    twice, so that there is a segment before; the bit is mended at the end, for the replay."""
    await dies(scene, "controller")
    await scene.load.goes_on(20)
    assert scene.mesh.journal is not None
    segment = segment_files(scene.mesh.journal)[-1]
    with segment.open("rb") as lines:
        place = len(next(lines)) + len(next(lines)) // 2
    _flip(segment, place)
    await dies(scene, "controller")
    _flip(segment, place)
    log = (scene.mesh.directory.logs / "controller.log").read_text("utf-8")
    assert "segment is damaged, nothing is lost" in log


def _flip(file: Path, place: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        (byte,) = opened.read(1)
        opened.seek(place)
        opened.write(bytes([byte ^ 1]))


def slices_die(scene: Scene, node: str) -> None:
    """Kill what a node has started: the process of its slices."""
    pid = scene.mesh.processes[node]
    children = [seen.pid for seen in in_session(pid) if seen.pid != pid]
    assert children
    for child in children:
        os.kill(child, signal.SIGKILL)


async def stands_still(scene: Scene, node: str, stopped_s: float) -> None:
    """Stop a node for longer than the controller waits for it, and let it go on."""
    pid = scene.mesh.processes[node]

    async def is_there() -> bool:
        return was_last_heard_of(scene, node) == "joined"

    async def is_lost() -> bool:
        return was_last_heard_of(scene, node) == "lost"

    await until(is_there)
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(stopped_s)  # the fault itself: for so long, nothing comes from it
        await until(is_lost)
    finally:
        os.kill(pid, signal.SIGCONT)
    # A result that it was about to write, and that another node has made and delivered meanwhile.
    # It must not delete it either: the other one's has the same name, and may still be waited for.
    scene.keys_may_expire = True


async def is_cut(scene: Scene) -> None:
    """Cut every connection to the controller, one after the other."""
    assert isinstance(scene.mesh, CabledMesh)
    for cable in scene.mesh.cables.values():

        async def connected(cable: Cable = cable) -> bool:
            return cable.connected

        await until(connected)
        cable.cut()
        await scene.load.goes_on(5)


async def disk_is_full(scene: Scene, node: str) -> None:
    """Have the kernel refuse a node to write files as large as an output, for a while."""
    pid = scene.mesh.processes[node]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (90_000, before[1]))

    async def noticed() -> bool:
        return "cannot be kept: File too large" in log_of(scene, node)

    await until(noticed)
    await scene.load.goes_on(10)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def redis_is_full(scene: Scene, full_s: float) -> None:
    """Have Redis refuse whatever would take room, for so long."""
    async with Redis.from_url(scene.mesh.redis_url) as redis:
        before = (await redis.config_get("maxmemory"))["maxmemory"]
        await redis.config_set("maxmemory", "1")

        async def refuses() -> bool:
            return "errorstat_OOM" in await redis.info("errorstats")

        await until(refuses)
        await asyncio.sleep(full_s)  # the fault itself: for so long, there is no room
        await redis.config_set("maxmemory", before)


async def hangs(scene: Scene, name: str) -> None:
    """Stop a process, and wait until it has been replaced."""
    # Who was about to delete something there may have given up
    scene.keys_may_expire |= name in ("gateway", "redis")
    pid = scene.mesh.processes[name]
    os.kill(pid, signal.SIGSTOP)

    async def replaced() -> bool:
        now = scene.mesh._all[name]
        return now.pid != pid and now.state is ProcessState.READY

    await until(replaced)


async def mesh_disk_is_full(scene: Scene, full_s: float) -> None:
    """Fill the disk that the mesh's directory is on, to the last byte, for so long."""
    big = scene.mesh.directory.path / "big"
    pids = scene.mesh.processes
    with big.open("wb", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    async with AsyncClient(scene.mesh.gateway) as client:

        async def is_refusing() -> bool:
            return "disk is full" in (await status_of(client)).refusing

        async def has_room() -> bool:
            return not await is_refusing()

        await until(is_refusing)
        await asyncio.sleep(full_s)  # the fault itself: for so long, there is no room
        assert await is_refusing()
        big.unlink()
        await until(has_room)
    assert scene.mesh.processes == pids


def was_last_heard_of(scene: Scene, node: str) -> str:
    """What the controller's log says of a node in the end: that it joined, is lost, or nothing."""
    said = re.findall(rf'"invoker (joined|lost)".*"{node}"', log_of(scene, "controller"))
    return str(said[-1]) if said else ""


def log_of(scene: Scene, name: str) -> str:
    return (scene.mesh.directory.logs / f"{name}.log").read_text("utf-8")
