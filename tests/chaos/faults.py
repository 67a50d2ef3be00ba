"""What is done to a mesh under load."""

import asyncio
import os
import re
import resource
import signal

from esg.local.procfs import in_session
from tests.chaos.conftest import Scene
from tests.support.cable import Cable, CabledMesh
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


def was_last_heard_of(scene: Scene, node: str) -> str:
    """What the controller's log says of a node in the end: that it joined, is lost, or nothing."""
    said = re.findall(rf'"invoker (joined|lost)".*"{node}"', log_of(scene, "controller"))
    return str(said[-1]) if said else ""


def log_of(scene: Scene, name: str) -> str:
    return (scene.mesh.directory.logs / f"{name}.log").read_text("utf-8")
