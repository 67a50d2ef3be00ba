"""The whole mesh in containers, on emulated slices: brought up, called, loaded, broken, taken down.

One story, because bringing it up is most of the work. It runs wherever a Docker engine answers; the
image's base is made of Debian's packages (see `debian`).
"""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from esg.cli.demo.expected_outputs import expected_outputs
from esg.client import Client, Credentials, MeshStatus
from esg.core.catalog.file import load_catalog
from tests.deploy.conftest import SCALE, BringUp
from tests.deploy.engine import (
    ROOT,
    Project,
    address_for_containers,
    free_ports,
    fresh_clone,
    run,
    why_no_engine,
)
from tests.deploy.rules import FILLS_ROOMS
from tests.support.waiting import COMMAND_LIMIT_S, wait_until

ALONE = {FILLS_ROOMS, "redis", "controller", "gateway", "invoker"}
SCALED = {*ALONE, "invoker-2"}
HOSTS = ["docker-compose.yml", "deploy/compose.hosts.yml"]
LOAD = ("--rate", "5/s", "--duration", "20", "--json", "--max-error-rate", "1")
REFUSED = "the controller cannot be reached at the moment; try again"
PICTURE = (ROOT / "esg" / "cli" / "demo" / "demo.png").read_bytes()
COMMAND = ("run", "--rm", "-T", "cli")
ROOMS = ("run", "--rm", "-T", FILLS_ROOMS, "esg", "rooms")
OWN_ROOMS = {
    "redis": ("10001:999 640", "redis.key"),
    "controller": ("10001:10001 600", "controller.key"),
    "gateway": ("10001:10001 600", "gateway.key"),
    "invoker": ("10001:10001 600", "invoker.key"),
}
pytestmark = pytest.mark.skipif(bool(why_no_engine()), reason=why_no_engine())


def test_a_mesh_in_containers_answers_all_it_accepts(bring_up: BringUp, tmp_path: Path) -> None:
    clone = fresh_clone(tmp_path / "clone")
    project = bring_up("stack", [], clone, MESH_PORT=free_ports(1)[0])
    project("up", "--detach")
    wait_until(lambda: _all_are_well(project, ALONE), COMMAND_LIMIT_S)
    said = project(*COMMAND, "submit", "image-classification", "esg/functions/photo.jpg")
    assert "photo.jpg: done in" in said
    assert "slices are emulated" in project("logs", "--no-color", "invoker")
    _nobody_has_more_than_needed(project)
    _everyone_has_a_room(project)

    project("run", "--rm", "-T", FILLS_ROOMS, "esg", "tokens", "add", "alice")
    before = _secrets(project)
    project("up", "--detach", "--scale", "invoker=2")
    wait_until(lambda: _all_are_well(project, SCALED), COMMAND_LIMIT_S)
    assert _secrets(project) == before
    published = project.containers()["gateway"]["NetworkSettings"]["Ports"]["50051/tcp"]
    address = f"127.0.0.1:{published[0]['HostPort']}"
    with Client(address, credentials=as_me(project, tmp_path)) as mesh:
        wait_until(lambda: len(status(mesh).nodes) == 2, COMMAND_LIMIT_S)
        every_application_answers(mesh)
        load = project.process("run", "--rm", "-T", "loadgen", *LOAD)
        begun = status(mesh).tasks

        def has_done(tasks: int) -> bool:
            assert load.poll() is None, load.communicate()
            return status(mesh).tasks >= begun + tasks

        wait_until(lambda: has_done(20), COMMAND_LIMIT_S)
        _crash(project, "invoker")
        wait_until(lambda: has_done(60), COMMAND_LIMIT_S)
        _crash(project, "controller")
        _all_accepted_were_answered(load)
        wait_until(lambda: _all_are_well(project, SCALED), COMMAND_LIMIT_S)
        every_application_answers(mesh)
        assert "esg_requests_total" in _metrics(project)

    project("down", "--volumes", "--timeout", "60")
    for kind in (("ps", "--all"), ("volume", "ls"), ("network", "ls")):
        assert project.left(*kind) == [], kind


def test_nodes_join_a_controller_of_another_host(bring_up: BringUp, tmp_path: Path) -> None:
    """Two projects share no network: they meet at an address of this machine, as two hosts do."""
    here = address_for_containers()
    controller, redis, port, metrics = free_ports(4, here)
    first = bring_up(
        "first",
        HOSTS,
        COMPOSE_PROFILES="control",
        MESH_HOSTS=here,
        MESH_ADDRESS=here,
        MESH_CONTROLLER_PORT=controller,
        MESH_REDIS_PORT=redis,
        MESH_PORT=port,
    )
    first("up", "--detach")
    second = bring_up(
        "second",
        HOSTS,
        COMPOSE_PROFILES="node",
        MESH_ADDRESS=here,
        MESH_METRICS_PORT=metrics,
        MESH_CONTROLLER=f"{here}:{controller}",
        MESH_REDIS=f"{here}:{redis}",
        MESH_NODE="far",
    )
    handed = tmp_path / "invoker.tar"
    handed.write_bytes(first.bytes_of(*ROOMS, "give", "invoker"))
    with handed.open("rb") as archive:
        second(*ROOMS, "take", "invoker", stdin=archive)
    second("up", "--detach")
    assert set(second.containers()) == {FILLS_ROOMS, "invoker"}
    with Client(f"{here}:{port}", credentials=as_me(first, tmp_path)) as mesh:
        wait_until(lambda: {one.node for one in status(mesh).nodes} == {"far"}, COMMAND_LIMIT_S)
        every_application_answers(mesh)


def as_me(project: Project, folder: Path) -> Credentials:
    """With what a client elsewhere is given."""
    given = project.bytes_of(*ROOMS, "give", "client")
    with tarfile.open(fileobj=io.BytesIO(given)) as archive:
        archive.extractall(folder, filter="data")
    return Credentials(token=(folder / "token").read_text("utf-8").strip(), ca=folder / "ca.pem")


def status(mesh: Client) -> MeshStatus:
    return next(mesh.watch_mesh(interval_ms=0))


def _all_are_well(project: Project, services: set[str]) -> bool:
    found = project.containers()
    assert set(found) - {"loadgen"} == services
    states = {name: found[name]["State"] for name in services}
    once = states.pop(FILLS_ROOMS)
    checked = [state["Health"]["Status"] for state in states.values() if "Health" in state]
    return (
        (once["Status"], once["ExitCode"]) == ("exited", 0)
        and len(checked) == len(states)
        and set(checked) == {"healthy"}
        and all(state["Running"] for state in states.values())
    )


def _nobody_has_more_than_needed(project: Project) -> None:
    for name, container in project.containers().items():
        config, host = container["Config"], container["HostConfig"]
        assert config["User"].split(":")[0] not in ("", "0", "root"), name
        assert host["ReadonlyRootfs"], name
        assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], None), name
        assert host["SecurityOpt"] == ["no-new-privileges:true"], name
        assert not host["Privileged"], name
        assert host["Memory"] > 0, name
        once = name == FILLS_ROOMS
        assert host["RestartPolicy"]["Name"] == ("no" if once else "unless-stopped"), name
        assert bool(host["GroupAdd"]) == once, name
        assert bool(host["PortBindings"]) == (name == "gateway"), name


def _everyone_has_a_room(project: Project) -> None:
    """Of its own, which it can read and not write, with no key but its own."""
    for name, (owner, key) in OWN_ROOMS.items():
        container = project.containers()[name]
        given = [one for one in container["Mounts"] if "secrets" in one["Name"]]
        (room,) = given
        assert (room["Name"], room["Destination"], room["RW"]) == (
            f"{project.name}_secrets-{name}",
            "/run/secrets",
            False,
        )
        inside = ["docker", "exec", container["Id"]]
        assert run(*inside, "stat", "-c", "%u:%g %a", f"/run/secrets/{key}") == owner
        listed = run(*inside, "ls", "/run/secrets").split()
        assert [file for file in listed if file.endswith(".key")] == [key]


def _secrets(project: Project) -> str:
    """All files of all rooms, and what is in them."""
    show = (
        "import pathlib, hashlib; [print(f, hashlib.sha256(f.read_bytes()).hexdigest()) "
        "for f in sorted(pathlib.Path('/var/lib/esg-secrets').rglob('*')) if f.is_file()]"
    )
    said = project("run", "--rm", "-T", FILLS_ROOMS, "python3", "-c", show)
    assert "authority/ca.key" in said
    return said


def every_application_answers(mesh: Client) -> None:
    for application in load_catalog().applications.values():
        result = mesh.submit(application.name, PICTURE, slo_ms=60_000)
        assert result.outputs == expected_outputs(application, PICTURE, SCALE)


def _crash(project: Project, service: str) -> None:
    """Kill everything in a container from inside, so that the engine, which did not do it, starts
    it again. Whoever kills there may end with the rest."""
    container = project.containers()[service]["Id"]
    kill = ["docker", "exec", container, "python3", "-c", "import os; os.kill(-1, 9)"]
    subprocess.run(kill, capture_output=True, timeout=COMMAND_LIMIT_S, check=False)
    wait_until(lambda: project.containers()[service]["RestartCount"] == 1, COMMAND_LIMIT_S)


def _all_accepted_were_answered(load: "subprocess.Popen[str]") -> None:
    """While the controller was away, requests were refused; there is no other way to fail."""
    out, err = load.communicate(timeout=COMMAND_LIMIT_S)
    assert load.returncode == 0, f"{out}\n{err}"
    told = json.loads(out[out.index("{") :])
    assert told["requests"] == told["sent"] > 50
    assert told["failed"] == told["errors"].get(REFUSED, 0), told["errors"]


def _metrics(project: Project) -> str:
    """The controller's page, as Prometheus would read it."""
    read = (
        "import ssl, urllib.request as r; c = ssl.create_default_context("
        "cafile='/run/secrets/ca.pem'); c.load_cert_chain('/run/secrets/gateway.pem', "
        "'/run/secrets/gateway.key'); print(r.urlopen('https://controller:9464/metrics', "
        "context=c).read().decode())"
    )
    return run("docker", "exec", project.containers()["gateway"]["Id"], "python3", "-c", read)
