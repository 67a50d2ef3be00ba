"""`esg up`, `esg status` and `esg down` as a user types them, with stand-ins for the services."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from esg.cli.bringup import preflight, up_options
from esg.cli.bringup import up as bringup_up
from esg.cli.bringup.foreground import try_text
from esg.cli.bringup.up_options import UpOptions
from esg.core.catalog.shipped import CPU, SHIPPED
from esg.invoker.slices.gpus import _no_driver
from esg.local.machine import Machine
from esg.local.options import Chosen, MeshOptions
from esg.local.procfs import alive, look
from esg.local.run_directory import RunDirectory
from esg.runtime.settings import InvokerSettings
from esg.runtime.slice_setting import Mig
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.component.local.conftest import STAND_INS
from tests.support.waiting import names, wait_until

ESG = Path(sys.executable).with_name("esg")
SMALL = ("--nodes", "2", "--nodes-per-process", "1", "--port", "0")
ALL = ["redis", "controller", "gateway", "node0", "node1"]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    """A mesh's, which is down when the test is over."""
    for name in [name for name in os.environ if name.startswith("ESG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", STAND_INS)
    monkeypatch.setenv("ESG_DIR", str(tmp_path / "mesh"))
    yield RunDirectory(tmp_path / "mesh")
    ran("down")


def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(ESG), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def begun(*arguments: object) -> subprocess.Popen[str]:
    command = [str(ESG), "up", *SMALL, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def up(directory: RunDirectory, *arguments: object) -> subprocess.Popen[str]:
    process = begun(*arguments)
    wait_until(lambda: process.poll() is not None or (directory.read() or {}).get("up"))
    return process


def record(directory: RunDirectory) -> dict[str, Any]:
    found = directory.read()
    assert found is not None
    return found


def pids(directory: RunDirectory) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in record(directory)["processes"]}


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_everything_and_leaves_only_logs(
    number: signal.Signals, directory: RunDirectory
) -> None:
    process = up(directory)
    running, scratch = pids(directory), record(directory)["scratch"]
    gateway = record(directory)["gateway"]
    process.send_signal(number)
    code, out, err = finished(process)
    assert (code, err) == (0, "")
    for name in ALL:
        assert re.search(rf"^{name} +ready +pid {running[name]} ", out, re.MULTILINE)
        assert re.search(rf"^{name} +stopped$", out, re.MULTILINE)
    assert f"mesh is up: gateway {gateway}; 2 nodes of 16 vCPUs, 7 emulated vGPUs" in out
    assert f"try: ESG_GATEWAY={gateway} esg submit " in out
    assert out.endswith(f"the mesh is down; logs: {directory.logs}\n")
    assert [look(pid) for pid in running.values()] == [None] * len(ALL)
    assert not Path(scratch).exists()
    assert [entry.name for entry in directory.path.iterdir()] == ["logs"]
    assert sorted(log.stem for log in directory.logs.iterdir()) == sorted(ALL)


def test_a_second_ctrl_c_does_not_wait(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "gateway clings")
    process = up(directory)
    running = pids(directory)
    process.send_signal(signal.SIGINT)
    log = directory.logs / "gateway.log"
    wait_until(lambda: "told to stop" in log.read_text("utf-8"))
    process.send_signal(signal.SIGINT)
    assert finished(process)[0] == 0
    assert [look(pid) for pid in running.values()] == [None] * len(ALL)


def test_ctrl_c_before_it_is_up_leaves_nothing(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "node1 hangs")
    process = begun()
    wait_until(lambda: directory.read() and "node1" in pids(directory))
    running = pids(directory)
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    assert (code, err) == (0, "")
    assert "stopped before it was up" in out
    assert [look(pid) for pid in running.values()] == [None] * len(ALL)


def test_esg_up_begins_anew_unless_it_is_to_resume(directory: RunDirectory) -> None:
    directory.make_private()
    directory.journal.mkdir()
    (directory.journal / "00000001.journal").touch()
    for more, left in (
        (["--resume"], {"logs", "mesh.journal", "mesh.log", "redis"}),
        ([], {"logs", "mesh.journal.previous", "mesh.log"}),
    ):
        assert ran("up", *SMALL, *more, "--detach").returncode == 0
        assert ran("down").returncode == 0
        assert {entry.name for entry in directory.path.iterdir()} == left


def test_detached_mesh_goes_on_until_esg_down(directory: RunDirectory) -> None:
    done = ran("up", *SMALL, "--detach")
    assert (done.returncode, done.stderr) == (0, "")
    running = record(directory)
    introduction, told, *_ = done.stdout.splitlines()
    assert introduction == (
        "started 2 nodes x 16 vCPUs x 7 emulated vGPUs in 2 processes, models loaded, data "
        "between stages at 1 % of the catalog's sizes"
    )
    assert told.startswith(f"mesh is up: gateway {running['gateway']}; 2 nodes; logs in ")
    assert [look(pid) is None for pid in pids(directory).values()] == [False] * len(ALL)
    done = ran("down")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"the mesh is down; logs: {directory.logs}\n"
    assert alive(**running["supervisor"]) is None
    assert [alive(p["pid"], p["began"]) for p in running["processes"]] == [None] * len(ALL)
    assert {entry.name for entry in directory.path.iterdir()} == {"logs", "mesh.log"}
    assert "mesh is up" in directory.log.read_text("utf-8")


def test_scripts_learn_where_a_mesh_is_and_that_it_is_gone(directory: RunDirectory) -> None:
    done = ran("up", *SMALL, "--detach", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "directory": str(directory.path),
        "gateway": record(directory)["gateway"],
        "nodes": 2,
        "logs": str(directory.logs),
        "client_env": None,
    }
    done = ran("down", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "directory": str(directory.path),
        "had_crashed": False,
        "left_behind": None,
        "logs": str(directory.logs),
        "journal": None,
    }


def test_a_mesh_in_the_foreground_has_no_document(directory: RunDirectory, esg: Run) -> None:
    assert_refused(esg("up", "--json"), "--json tells where a mesh is...; say --detach as well")
    assert not directory.path.exists()


def test_the_commands_that_it_names_are_for_this_very_mesh(
    directory: RunDirectory, tmp_path: Path
) -> None:
    usual = ran("up", *SMALL, "--detach").stdout.splitlines()
    gateway = record(directory)["gateway"]
    assert usual[2:] == [
        f"try: ESG_GATEWAY={gateway} esg submit image-classification FILE",
        "esg status shows it, esg down stops it",
    ]
    other = tmp_path / "my mesh"
    last = ran("up", *SMALL, "--detach", "--dir", other).stdout.splitlines()[-1]
    assert last == f"esg status --dir '{other}' shows it, esg down --dir '{other}' stops it"
    assert ran("down", "--dir", other).returncode == 0


def test_a_secure_mesh_is_called_with_what_its_file_says() -> None:
    told = try_text("0.0.0.0:50051", Path("/my mesh/security/client.env"), "")
    assert told == "try: . '/my mesh/security/client.env' && esg submit image-classification FILE"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "would listen on 0.0.0.0 without TLS; use --secure, or set ..."),
        (["--slices", "cpu:2"], "invoker.triton: /no/such: no such program; name a ..."),
        (["--slices", "mig"], "slices mig: there is no NVIDIA driver; install one, ..."),
    ],
)
@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_mesh_that_cannot_come_up_is_refused_before_anything_starts(
    options: list[str],
    words: str,
    detach: list[str],
    directory: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    esg: Run,
) -> None:
    def no_driver(kind: Mig) -> None:
        raise _no_driver(kind, pynvml, pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))

    def started(*_: object, **__: object) -> int:
        raise AssertionError("it was started")

    monkeypatch.setattr(bringup_up, "run_mesh", started)
    monkeypatch.setattr(bringup_up, "start_detached", started)
    monkeypatch.setattr(preflight, "find_devices", no_driver)
    monkeypatch.setenv("ESG_INVOKER_TRITON", "/no/such")
    assert_refused(esg("up", *options, *detach), words)
    assert not directory.path.exists()


def test_slices_auto_are_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    options, machine = UpOptions(slices="auto"), Machine(2, 8_000)
    monkeypatch.setattr(up_options, "why_no_driver", lambda: "there is no NVIDIA driver")
    without = options.mesh(None, machine)
    assert without == replace(UpOptions().mesh(None, machine), slices="emulated:7")
    monkeypatch.setattr(up_options, "why_no_driver", lambda: "")
    with_gpus = options.mesh(None, machine)
    assert (with_gpus.slices, with_gpus.nodes, with_gpus.usual) == ("auto", 1, {})


def test_detached_mesh_stays_up_if_nobody_reads_that_it_is_up(
    directory: RunDirectory,
) -> None:
    with begun("--detach") as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(120)
    assert record(directory)["up"]
    assert [look(pid) is None for pid in pids(directory).values()] == [False] * len(ALL)


def test_esg_down_stops_a_mesh_in_another_terminal(directory: RunDirectory) -> None:
    process = up(directory)
    assert ran("down").returncode == 0
    assert finished(process)[0] == 0


# attack: D2
def test_esg_down_keeps_what_it_cannot_copy_until_there_is_room(directory: RunDirectory) -> None:
    assert ran("up", *SMALL, "--detach").returncode == 0
    directory.journal.mkdir(exist_ok=True)
    in_the_way = directory.path / "redis.unfinished"
    in_the_way.touch()
    data = Path(record(directory)["scratch"]) / "redis"
    for _ in range(2):
        down = ran("down")
        assert down.returncode == 1
        assert down.stdout.startswith(
            f"the mesh is down; Redis' data could not be copied to {directory.redis}"
        )
        assert f"it is still in {data}," in down.stdout
        assert f"esg down --discard --dir {directory.path} deletes it" in down.stdout
        assert names(data.parent) == {"redis"}
    in_the_way.unlink()
    assert ran("down").returncode == 0
    assert names(directory.redis) >= {"appendonlydir"}
    assert not data.parent.exists()
    assert directory.read() is None


def test_esg_down_deletes_what_it_cannot_copy_only_if_it_is_told_to(
    directory: RunDirectory,
) -> None:
    assert ran("up", *SMALL, "--detach").returncode == 0
    directory.journal.mkdir(exist_ok=True)
    (directory.path / "redis.unfinished").touch()  # in the way of the copy
    scratch = Path(record(directory)["scratch"])
    assert ran("down", "--discard").returncode == 0
    assert not scratch.exists()
    assert directory.read() is None


def test_esg_status_and_esg_down_say_that_no_mesh_is_running(
    directory: RunDirectory, esg: Run
) -> None:
    words = f"no mesh is running in {directory.path}; start one with esg up..."
    assert_refused(esg("down"), words, code=3)
    assert_refused(esg("status"), words, code=3)


def test_two_meshes_need_two_directories(directory: RunDirectory, tmp_path: Path) -> None:
    assert ran("up", *SMALL, "--detach").returncode == 0
    for detach in ((), ("--detach",)):
        second = ran("up", *SMALL, *detach)
        assert second.returncode == 2
        assert second.stderr.startswith(f"error: a mesh is running in {directory.path}; stop it")
    other = tmp_path / "other"
    assert ran("up", *SMALL, "--detach", "--dir", other).returncode == 0
    assert ran("down", "--dir", other).returncode == 0
    assert ran("status").returncode == 0


def test_status_tells_how_every_process_is(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran("up", *SMALL, "--detach", "--scale", "0.5")
    running = pids(directory)
    os.kill(running["node1"], signal.SIGKILL)
    wait_until(lambda: pids(directory)["node1"] != running["node1"])
    wait_until(lambda: record(directory)["processes"][4]["state"] == "ready")
    done = ran("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["gateway"] == record(directory)["gateway"]
    assert found["settings"]["common"]["time_scale"] == 0.5
    rows = {row["name"]: row for row in found["processes"]}
    running = pids(directory)
    assert {name: row["pid"] for name, row in rows.items()} == running
    assert [row["state"] for row in rows.values()] == ["serving"] * 5
    assert rows["gateway"]["memory_mb"] > 1
    assert rows["gateway"]["cpu_s"] > 0
    assert rows["gateway"]["uptime_s"] > 0
    monkeypatch.setenv("COLUMNS", "200")  # room for the socket in a test's long directory
    table = ran("status").stdout
    assert re.search(rf"^gateway +serving +{found['gateway']} +{running['gateway']} ", table, re.M)
    one_decimal = r"\d+\.\d"
    figures = rf"{running['node1']} +{one_decimal} +{one_decimal} +{one_decimal} *$"
    assert re.search(rf"^node1 +serving +\S+ +{figures}", table, re.M)


# attack: D1
def test_status_says_why_a_process_is_started_again(directory: RunDirectory, esg: Run) -> None:
    directory.claim()
    me = look(os.getpid())
    assert me is not None
    process = {"name": "redis", "pid": 1, "began": -1, "address": "", "exit_code": 1}
    directory.write(
        {
            "supervisor": {"pid": me.pid, "began": me.began},
            "up": True,
            "gateway": "",
            "gateways": [""],
            "controller": "",
            "settings": {},
            "processes": [{**process, "state": "ended"}],
        }
    )
    directory.log_of("redis").write_text("starting\nCan't write: No space left on device\n")
    try:
        told = esg("status").out
    finally:
        directory.release()
    assert re.search(r"^redis +restarting ", told, re.M)
    assert (
        "redis has ended and is being restarted; its log ends: Can't write: No space left" in told
    )


def test_a_stopped_process_is_not_serving(directory: RunDirectory) -> None:
    ran("up", *SMALL, "--detach")
    gateway = pids(directory)["gateway"]
    os.kill(gateway, signal.SIGSTOP)
    try:
        found = json.loads(ran("status", "--json").stdout)
    finally:
        os.kill(gateway, signal.SIGCONT)
    states = {row["name"]: row["state"] for row in found["processes"]}
    assert states == {**dict.fromkeys(ALL, "serving"), "gateway": "not serving"}


@pytest.mark.parametrize("name", ["node1", "controller"])
def test_a_process_that_dies_is_told_with_the_end_of_its_log_and_comes_back(
    directory: RunDirectory, name: str
) -> None:
    process = up(directory)
    before = pids(directory)[name]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: pids(directory)[name] != before)
    wait_until(lambda: {p["state"] for p in record(directory)["processes"]} == {"ready"})
    process.send_signal(signal.SIGINT)
    code, out, _ = finished(process)
    assert code == 0
    assert f"{name} was ended by SIGKILL: restarting" in out
    assert '"event": "serving"' in out
    assert str(directory.logs / f"{name}.log") in out
    assert out.count(f"{name:11} ready") == 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[MeshOptions]:
    """What would be started: all that a mesh is, without its processes."""
    asked: list[MeshOptions] = []

    def start(options: MeshOptions, _directory: Path) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(bringup_up, "run_mesh", start)
    return asked


def test_mesh_without_options_is_the_papers_cluster_where_the_machine_can_carry_it(
    esg: Run, asked: list[MeshOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine, nodes, shared, words in (
        (Machine(2, 8_000), 16, 16, ": the paper's cluster, for loadgen --rate heavy"),
        (Machine(8, 8_000), 16, 4, ": the paper's cluster, for loadgen --rate heavy"),
        (Machine(1, 8_000), 8, 8, "1 core and 7.8 GB of free memory, is too small"),
        (Machine(2, 800), 4, 4, "; this is for loadgen --rate light (--nodes 16 insists)"),
    ):
        monkeypatch.setattr(bringup_up, "this_machine", lambda machine=machine: machine)
        told = esg("up").out
        assert told.startswith(f"starting {nodes} nodes x 16 vCPUs x 7 emulated vGPUs in ")
        assert words in " ".join(told.split())
        mesh = asked.pop()
        assert (mesh.nodes, mesh.nodes_per_process) == (nodes, shared)
        own = Chosen(mesh, {}).settings.of(InvokerSettings)
        assert (own.warm_start, own.payload_scale) == (True, 0.01)


def test_what_anybody_chose_goes_before_the_papers_cluster(
    esg: Run, asked: list[MeshOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringup_up, "this_machine", lambda: Machine(2, 8_000))
    told = esg("up", "--nodes", 3, "--cold-start", "--payload-scale", 1).out
    assert "no models loaded, data between stages at 100 %" in told
    assert "paper" not in told
    mesh = asked.pop()
    assert (mesh.nodes, mesh.nodes_per_process) == (3, 3)
    assert Chosen(mesh, {}).settings.of(InvokerSettings).warm_start is False
    chosen = Chosen(mesh, {"ESG_INVOKER_PAYLOAD_SCALE": "0.5"})
    assert chosen.settings.of(InvokerSettings).payload_scale == 1
    esg("up")
    chosen = Chosen(asked.pop(), {"ESG_INVOKER_PAYLOAD_SCALE": "0.5"})
    assert chosen.settings.of(InvokerSettings).payload_scale == 0.5


def test_real_slices_have_a_node_and_its_process_alone(
    esg: Run, asked: list[MeshOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringup_up, "check_slices", lambda chosen: None)
    monkeypatch.setenv("ESG_INVOKER_SLICES", "cpu:2")
    said = esg("up")
    assert said.out.startswith("starting 2 Triton servers without a GPU, with the catalog cpu: its")
    assert said.err == ""
    mesh = asked.pop()
    assert (mesh.nodes, mesh.nodes_per_process, mesh.usual) == (1, 1, {})
    assert mesh.catalog == SHIPPED[CPU]
    said = esg("up", "--catalog", "default")
    assert said.out == ""
    assert said.err.startswith(
        "warning: nothing is planned on cpu-1: no profile; measure with: esg"
    )
    assert asked.pop().catalog == SHIPPED["default"]
    words = "only nodes with emulated slices can share a process..."
    assert_refused(esg("up", "--nodes", 2, "--nodes-per-process", 2), words)


def test_status_and_logs_tell_which_nodes_share_a_process(directory: RunDirectory) -> None:
    shared = ("--nodes", 2, "--nodes-per-process", 2, "--port", 0)
    assert ran("up", *shared, "--detach").returncode == 0
    rows = json.loads(ran("status", "--json").stdout)["processes"]
    assert rows[-1]["name"] == "node0-1"
    assert rows[-1]["nodes"] == ["node0", "node1"]
    assert "node0-1: 2 nodes, each with a link, a store and slices" in ran("status").stdout
    with directory.log_of("node0-1").open("a") as log:
        log.write('{"event": "slice lost", "node": "node1"}\n{"event": "slice back"}\n')
    assert ran("logs", "node1").stdout == '{"event": "slice lost", "node": "node1"}\n'


@pytest.mark.parametrize("clean", ["down", "up"])
def test_processes_of_a_mesh_do_not_outlive_a_supervisor_that_is_killed(
    clean: str, directory: RunDirectory
) -> None:
    process = up(directory)
    left = record(directory)
    process.kill()
    finished(process)
    wait_until(lambda: not any(alive(p["pid"], p["began"]) for p in left["processes"]))
    assert ran("status").stderr == (
        f"error: the mesh in {directory.path} has ended and left files behind; "
        "esg down removes them\n"
    )
    if clean == "down":
        done = ran("down")
        assert (done.returncode, done.stderr) == (0, "")
        assert "had ended" in done.stdout
        assert sorted(log.stem for log in directory.logs.iterdir()) == sorted(ALL)
        assert directory.read() is None
    else:
        assert ran("up", *SMALL, "--detach").returncode == 0
        assert record(directory)["supervisor"] != left["supervisor"]
    assert not Path(left["scratch"]).exists()


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_a_taken_port_is_one_line(detach: tuple[str, ...], directory: RunDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ran("up", "--nodes", 1, "--port", port, *detach)
    assert done.returncode == 2
    assert done.stderr == (
        f"error: gateway: cannot listen on 127.0.0.1:{port}: is another process there? "
        "choose another port\n"
    )
    assert directory.read() is None


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_a_failure_at_the_start_is_told_with_its_story(
    detach: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "controller fails")
    done = ran("up", *SMALL, *detach)
    assert done.returncode == 1
    said = done.stderr if detach else done.stdout
    assert "error: controller ended with exit code 1 before the mesh was up" in said
    assert "RuntimeError: this is how I end" in said


def test_a_settings_file_counts_and_options_win(directory: RunDirectory, tmp_path: Path) -> None:
    file = tmp_path / "mesh.toml"
    file.write_text('[controller]\npolicy = "orion"\n[common]\ntime_scale = 0.5\n', "utf-8")
    assert ran("up", *SMALL, "--settings", file, "--scale", 0.25, "--detach").returncode == 0
    settings = record(directory)["settings"]
    assert settings["controller"]["policy"] == "orion"
    assert settings["common"]["time_scale"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nodes", 0), "--nodes is 0; it must be at least 1"),
        (("--port", 70000), "--port is 70000; it must be from 0 to 65535"),
        (("--scale", 0), "--scale is 0; it must be greater than 0..."),
        (("--noise", -1), "--noise is -1; it must be from 0..."),
        (("--policy", "essg"), "--policy: unknown policy 'essg'; did you mean 'esg'?"),
        (("--policy", "esg,orion"), "--policy is esg,orion; a mesh has one"),
        (("--catalog", "none.toml"), "none.toml: no such file..."),
        (("--settings", "none.toml"), "...none.toml: cannot be read..."),
        (("--log-level", "loud"), "log_level: unknown level 'loud'..."),
    ],
)
def test_esg_up_refuses_impossible_options_in_one_line(
    arguments: tuple[object, ...], words: str, esg: Run
) -> None:
    assert_refused(esg("up", *arguments), words)


def test_a_redis_that_does_not_answer_is_refused_once_the_mesh_was_to_start(esg: Run) -> None:
    ran = esg("up", "--redis-url", "redis://127.0.0.1:1/0")
    assert ran.code == 2
    assert ran.out.startswith("starting ")
    assert "redis_url: redis://127.0.0.1:1/0 does not answer" in ran.err


def test_a_misspelt_variable_is_refused(esg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESG_GATEWAY_PROT", "1")
    assert_refused(esg("up"), "environment: unknown variable 'ESG_GATEWAY_PROT'; did you mean...")
