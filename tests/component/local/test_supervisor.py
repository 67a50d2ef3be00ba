"""Meshes of real processes. Services are stand-ins that only begin and end; Redis is a real one."""

import asyncio
import errno
import os
import shutil
import signal
from pathlib import Path

import pytest
import uvloop

from esg.backoff import Backoff
from esg.errors import Fault, Rejected
from esg.local.health import is_serving, redis_answers
from esg.local.procfs import look
from esg.local.supervisor import Mesh, MeshOptions, Process, ProcessState
from tests.support.waiting import names, until

pytestmark = pytest.mark.usefixtures("_stand_ins")

SMALL = MeshOptions(nodes=2)
QUICK = MeshOptions(nodes=2, more={"common": {"drain_s": 0}})


@pytest.fixture
def news() -> list[tuple[str, ProcessState]]:
    return []


@pytest.fixture
def _all_deaths_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a process takes to start and to fail here; and none is paused after."""
    monkeypatch.setattr("esg.local.restart_policy.QUICK_S", float("inf"))
    monkeypatch.setattr("esg.local.restart_policy.BACKOFF_S", Backoff(0.001, 5.0))


def gone(pids: dict[str, int]) -> bool:
    return all(look(pid) is None for pid in pids.values())


async def test_a_mesh_is_up_inside_and_gone_outside() -> None:
    async with Mesh(SMALL) as mesh:
        assert await is_serving(mesh.gateway)
        assert await is_serving(mesh.controller)
        assert await redis_answers(mesh.redis_url)
        assert list(mesh.processes) == ["redis", "controller", "gateway", "node0", "node1"]
        assert len(set(mesh.processes.values())) == 5
        pids = mesh.processes
        scratch = mesh.directory.scratch
        stores = sorted(store.name for store in scratch.iterdir())
        assert stores == ["node0", "node1", "redis", "run"]
    assert gone(pids)
    assert mesh.processes == {}
    assert not scratch.exists()
    assert not mesh.directory.path.exists()


async def test_log_of_redis_is_not_copied_into_a_directory_that_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[object] = []
    async with Mesh(SMALL) as mesh:
        mesh.directory.journal.mkdir()
        monkeypatch.setattr(shutil, "copytree", lambda *told, **_: copied.append(told))
    assert copied == []


def test_mesh_runs_on_any_event_loop() -> None:
    async def up_and_down() -> dict[str, int]:
        async with Mesh(MeshOptions(nodes=1)) as mesh:
            return mesh.processes

    for run in (asyncio.run, uvloop.run):
        assert gone(run(up_and_down()))


async def test_processes_of_a_mesh_start_and_stop_in_order(
    news: list[tuple[str, ProcessState]], tmp_path: Path
) -> None:
    def tell(process: Process) -> None:
        news.append((process.name, process.state))

    async with Mesh(SMALL, tmp_path, tell=tell):
        pass
    ready = [name for name, state in news if state is ProcessState.READY]
    ended = [name for name, state in news if state is ProcessState.ENDED]
    assert ready[:2] == ["redis", "controller"]
    assert sorted(ready[2:]) == ["gateway", "node0", "node1"]
    assert ended[0] == "gateway"
    assert sorted(ended[1:3]) == ["node0", "node1"]
    assert ended[3:] == ["controller", "redis"]
    for name in ("gateway", "node0", "controller"):
        assert "told to stop" in (tmp_path / "logs" / f"{name}.log").read_text("utf-8")


async def test_processes_get_the_settings_that_were_chosen(tmp_path: Path) -> None:
    more = {"controller": {"k": 2}}
    options = MeshOptions(nodes=1, scale=0.25, policy="orion", tasks="phased", more=more)
    async with Mesh(options, tmp_path) as mesh:
        shown = mesh.settings
        environ = _environ(mesh.processes["node0"])
        controller = _environ(mesh.processes["controller"])
    assert shown["common"]["time_scale"] == 0.25
    assert mesh.journal == tmp_path / "mesh.journal"
    assert environ["ESG_TIME_SCALE"] == "0.25"
    assert environ["ESG_INVOKER_NODE"] == "node0"
    assert environ["ESG_INVOKER_CONTROLLER"] == mesh.controller
    assert environ["ESG_REDIS_URL"] == mesh.redis_url
    assert controller["ESG_CONTROLLER_POLICY"] == "orion"
    assert controller["ESG_CONTROLLER_TASKS"] == "phased"
    assert controller["ESG_CONTROLLER_K"] == "2"
    assert controller["ESG_CONTROLLER_JOURNAL"] == str(tmp_path / "mesh.journal")


async def test_a_server_that_is_there_is_used() -> None:
    async with Mesh(MeshOptions(nodes=1)) as first:
        options = MeshOptions(nodes=1, redis_url=first.redis_url, journal=False)
        async with Mesh(options) as second:
            assert second.redis_url == first.redis_url
            assert second.journal is None
            assert "redis" not in second.processes
            assert _environ(second.processes["gateway"])["ESG_REDIS_URL"] == first.redis_url
        assert await redis_answers(first.redis_url)


async def test_a_server_that_is_not_there_is_refused_without_its_password(tmp_path: Path) -> None:
    options = MeshOptions(redis_url=f"unix://me:secret@{tmp_path}/none.sock")
    with pytest.raises(Rejected, match=r"redis_url: .* does not answer") as refused:
        await Mesh(options).start()
    assert "secret" not in str(refused.value)


async def test_a_service_that_refuses_is_quoted_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "gateway refuses")
    mesh = Mesh(SMALL, tmp_path)
    with pytest.raises(Rejected, match="gateway: nothing is as it should be"):
        await mesh.start()
    assert mesh.processes == {}
    assert names(tmp_path) == {"logs"}


async def test_a_process_that_fails_at_the_start_shows_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAND_IN", "node1 fails")
    with pytest.raises(Fault, match="node1 ended with exit code 1 before the mesh") as failed:
        await Mesh(SMALL).start()
    assert "RuntimeError: this is how I end" in str(failed.value)


async def test_a_start_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "node1 hangs")
    mesh = Mesh(SMALL)
    starting = asyncio.create_task(mesh.start())
    await until(lambda: "node1" in mesh.processes)
    pids = mesh.processes
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert gone(pids)
    assert not mesh.directory.path.exists()


async def test_a_process_that_clings_to_life_is_killed(
    news: list[tuple[str, ProcessState]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "controller clings")
    monkeypatch.setattr("esg.local.supervisor.STOP_MARGIN_S", 0.1)
    codes: dict[str, int | None] = {}

    def tell(process: Process) -> None:
        codes[process.name] = process.exit_code

    async with Mesh(QUICK, tell=tell):
        pass
    assert codes["controller"] == -signal.SIGKILL


@pytest.mark.parametrize("name", ["redis", "controller", "gateway", "node1"])
async def test_a_process_that_dies_is_told_and_started_again_where_it_was(name: str) -> None:
    told: list[tuple[str, ProcessState, bool]] = []

    def tell(process: Process) -> None:
        told.append((process.name, process.state, process.again_after_s is not None))

    async with Mesh(SMALL, tell=tell) as mesh:
        gateway, redis_url, pids = mesh.gateway, mesh.redis_url, mesh.processes
        told.clear()
        os.kill(pids[name], signal.SIGKILL)
        await until(lambda: (name, ProcessState.READY, False) in told)
        assert told == [(name, ProcessState.ENDED, True), (name, ProcessState.READY, False)]
        assert mesh.processes[name] != pids[name]
        assert mesh.processes.keys() == pids.keys()
        assert (mesh.gateway, mesh.redis_url) == (gateway, redis_url)
        assert await is_serving(mesh.gateway)
        assert await redis_answers(mesh.redis_url)


# attack: I1
@pytest.mark.parametrize("name", ["redis", "controller", "gateway", "node1"])
async def test_a_process_that_does_not_answer_is_killed_and_started_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("esg.local.liveness.PROBE_EVERY_S", 1.0)
    endings: list[str] = []

    def tell(process: Process) -> None:
        if process.state is ProcessState.ENDED:
            endings.append(f"{process.name} {process.end_text()}")

    async with Mesh(SMALL, tell=tell) as mesh:
        pid, address = mesh.processes[name], mesh._all[name].address
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: endings)
        assert endings == [f"{name} did not answer any more and was killed"]
        await until(lambda: mesh._all[name].pid != pid)
        await until(lambda: mesh._all[name].state is ProcessState.READY)
        assert mesh._all[name].address == address
        assert gone({name: pid})


async def test_a_full_disk_keeps_no_process_from_being_started_again_or_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(record: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with Mesh(SMALL) as mesh:
        pid = mesh.processes["controller"]
        monkeypatch.setattr(mesh.directory, "write", full)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: mesh._all["controller"].pid != pid)
        await until(lambda: mesh._all["controller"].state is ProcessState.READY)
        pids, scratch = mesh.processes, mesh.directory.scratch
    assert gone(pids)
    assert not scratch.exists()


# attack: D1
@pytest.mark.usefixtures("_all_deaths_are_quick")
@pytest.mark.parametrize("name", ["controller", "gateway", "node1"])
async def test_a_process_that_keeps_dying_is_started_again_until_it_lives(name: str) -> None:
    deaths = 0

    def tell(process: Process) -> None:
        nonlocal deaths
        if process.state is ProcessState.ENDED and process.again_after_s is not None:
            deaths += 1

    async with Mesh(SMALL, tell=tell) as mesh:
        address, pid = mesh._all[name].address, mesh.processes[name]
        mesh._all[name].program.environ["STAND_IN"] = f"{name} fails"  # type: ignore[index]
        os.kill(pid, signal.SIGKILL)
        await until(lambda: deaths > 8)
        del mesh._all[name].program.environ["STAND_IN"]  # type: ignore[attr-defined]
        await until(lambda: mesh._all[name].state is ProcessState.READY)
        assert mesh._all[name].address == address
        assert await is_serving(address)


# attack: D1
@pytest.mark.usefixtures("_all_deaths_are_quick")
async def test_a_process_that_cannot_be_made_is_made_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = 0

    def no_process(*_: object) -> Process:
        nonlocal refused
        refused += 1
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    async with Mesh(SMALL) as mesh:
        pid = mesh.processes["gateway"]
        with monkeypatch.context() as machine:
            machine.setattr("esg.local.supervisor.Process", no_process)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: refused > 2)
        await until(lambda: mesh._all["gateway"].pid != pid)
        await until(lambda: mesh._all["gateway"].state is ProcessState.READY)


async def test_a_process_that_was_killed_on_purpose_comes_back_at_its_address(
    tmp_path: Path,
) -> None:
    async with Mesh(MeshOptions(nodes=1), tmp_path) as mesh:
        before, pid = mesh.controller, mesh.processes["controller"]
        with pytest.raises(Rejected, match="controller is still running"):
            await mesh.restart("controller")
        await mesh.kill("controller")
        assert "controller" not in mesh.processes
        await mesh.restart("controller")
        assert mesh.controller == before
        assert mesh.processes["controller"] != pid
        assert await is_serving(before)
        with pytest.raises(Rejected, match="unknown process 'nobody'"):
            await mesh.kill("nobody")


async def test_mesh_can_be_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "gateway clings")
    async with Mesh(SMALL) as mesh:
        pids = mesh.processes
        mesh.stop_now()
        assert gone(pids)


async def test_the_record_tells_others_what_runs(tmp_path: Path) -> None:
    async with Mesh(SMALL, tmp_path) as mesh:
        record = mesh.directory.read()
        assert record is not None
        assert record["up"]
        assert record["gateway"] == mesh.gateway
        assert record["gateways"] == mesh.gateways == [mesh.gateway]
        assert record["supervisor"]["pid"] == os.getpid()
        assert {p["name"]: p["pid"] for p in record["processes"]} == mesh.processes
        assert {p["state"] for p in record["processes"]} == {"ready"}
        await mesh.kill("node0")
        record = mesh.directory.read()
        assert record is not None
        (node,) = [p for p in record["processes"] if p["name"] == "node0"]
        assert (node["state"], node["exit_code"]) == ("ended", -9)
    assert mesh.directory.read() is None


def _environ(pid: int) -> dict[str, str]:
    content = Path(f"/proc/{pid}/environ").read_text("utf-8")
    return dict(entry.split("=", 1) for entry in content.split("\0") if "=" in entry)


async def test_several_gateways_have_addresses_of_their_own_and_come_back_there() -> None:
    async with Mesh(MeshOptions(nodes=1, gateways=2)) as mesh:
        assert {"gateway", "gateway1"} <= mesh.processes.keys()
        first, second = mesh.gateways
        assert first == mesh.gateway != second
        await mesh.kill("gateway1")
        await mesh.restart("gateway1")
        assert mesh.gateways == [first, second]
