"""The whole mesh in containers, on emulated slices: brought up, called, loaded, broken, taken down.

One story, because bringing it up is most of the work. It runs wherever a Docker engine answers; the
image's base is made of Debian's packages (see `debian`).
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.reckoned import reckoned_outputs
from client import Client, Credentials, MeshStatus
from esg.catalog_file import load_catalog
from tests.deploy.debian import base_image, builder_image, redis_image
from tests.deploy.engine import ROOT, Project, run, why_no_engine

SERVICES = {"redis", "controller", "gateway", "node", "invoker", "node-b", "invoker-b"}
FILES = ["docker-compose.yml", "docker-compose.cpu.yml"]
SCALE = 0.01
"""Of the data between stages, relative to the paper's: two cores carry it beside the rest."""
LIMIT_S = 300.0
LOAD = ("--rate", "5/s", "--duration", "20", "--json", "--max-error-rate", "1")
REFUSED = "the controller cannot be reached at the moment; try again"
PICTURE = (ROOT / "cli" / "demo.png").read_bytes()
pytestmark = pytest.mark.skipif(bool(why_no_engine()), reason=why_no_engine())


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    run(ROOT / ".venv/bin/esg", "secrets", tmp_path / "secrets")
    return tmp_path / "secrets"


@pytest.fixture
def project(secrets: Path) -> Iterator[Project]:
    variables = {
        "MESH_IMAGE": "esg-test",
        "MESH_BASE": base_image(),
        "MESH_BUILDER": builder_image(),
        "MESH_REDIS_IMAGE": redis_image(),
        "MESH_SECRETS": str(secrets),
        "MESH_PORT": str(_free_port()),
        "MESH_WARM_START": "true",
        "MESH_PAYLOAD_SCALE": str(SCALE),
    }
    project = Project(f"esg-test-{os.getpid()}", FILES, variables)
    project("build", "gateway")
    try:
        yield project
    finally:
        project("down", "--volumes", "--timeout", "60")


def test_a_mesh_in_containers_answers_all_it_accepts(project: Project, secrets: Path) -> None:
    project("up", "--detach", "--no-build")
    _until(lambda: _all_are_well(project))
    _nobody_has_more_than_needed(project)
    published = project.containers()["gateway"]["NetworkSettings"]["Ports"]["50051/tcp"]
    address = f"127.0.0.1:{published[0]['HostPort']}"

    with Client(address, credentials=_me(secrets)) as mesh:
        _until(lambda: len(_status(mesh).nodes) == 2)
        _every_application_answers(mesh)
        load = project.process("run", "--rm", "-T", "loadgen", *LOAD)
        begun = _status(mesh).tasks

        def has_done(tasks: int) -> bool:
            assert load.poll() is None, load.communicate()
            return _status(mesh).tasks >= begun + tasks

        _until(lambda: has_done(20))
        _crash(project, "invoker")
        _until(lambda: has_done(60))
        _crash(project, "controller")
        _all_accepted_were_answered(load)
        _until(lambda: _all_are_well(project))
        _every_application_answers(mesh)
        assert "esg_requests_total" in _metrics(project)

    project("down", "--volumes", "--timeout", "60")
    for kind in (("ps", "--all"), ("volume", "ls"), ("network", "ls")):
        assert project.left(*kind) == [], kind


def _me(secrets: Path) -> Credentials:
    token = (secrets / "client.token").read_text("utf-8").strip()
    return Credentials(token=token, ca=secrets / "ca.pem")


def _status(mesh: Client) -> MeshStatus:
    return next(mesh.watch_mesh(interval_ms=0))


def _all_are_well(project: Project) -> bool:
    found = project.containers()
    assert set(found) - {"loadgen"} == SERVICES
    states = {name: found[name]["State"] for name in SERVICES}
    checked = [state["Health"]["Status"] for state in states.values() if "Health" in state]
    return (
        len(checked) == 5
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
        assert host["RestartPolicy"]["Name"] == "unless-stopped", name
        assert bool(host["PortBindings"]) == (name == "gateway"), name


def _every_application_answers(mesh: Client) -> None:
    for application in load_catalog().applications.values():
        result = mesh.submit(application.name, PICTURE, slo_ms=60_000)
        assert result.outputs == reckoned_outputs(application, PICTURE, SCALE)


def _crash(project: Project, service: str) -> None:
    """Kill everything in a container from inside, so that the engine, which did not do it, starts
    it again. Whoever kills there may end with the rest."""
    container = project.containers()[service]["Id"]
    kill = ["docker", "exec", container, "python3", "-c", "import os; os.kill(-1, 9)"]
    subprocess.run(kill, capture_output=True, timeout=LIMIT_S, check=False)
    _until(lambda: project.containers()[service]["RestartCount"] == 1)


def _all_accepted_were_answered(load: "subprocess.Popen[str]") -> None:
    """While the controller was away, requests were refused; there is no other way to fail."""
    out, err = load.communicate(timeout=LIMIT_S)
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


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it has never become true"
        time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
