"""docker-compose.yml and the files on top of it, as they are written."""

import re
import subprocess
import tomllib
from pathlib import Path, PurePath
from typing import Any

import pytest
import yaml

from esg.local.programs import GRPC_TUNING, MALLOC_TUNING
from esg.runtime.settings_file import Settings
from tests.deploy.engine import ROOT, compose_tool
from tests.deploy.rules import CPU, MESH, PUBLISHED, broken_rules, merged, specification_errors

FILES = [MESH, CPU, *sorted((ROOT / "deploy").glob("compose.*.yml"))]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_compose_files_follow_the_compose_specification(file: Path) -> None:
    assert specification_errors(file) == ""


def test_the_check_of_the_specification_can_fail(tmp_path: Path) -> None:
    (tmp_path / "wrong.yml").write_text("services: {one: {imag: x}}\n")
    assert "imag" in specification_errors(tmp_path / "wrong.yml")


@pytest.mark.parametrize("on_top", [[], [CPU]], ids=["GPU", "CPU"])
def test_services_have_no_right_they_do_not_need(on_top: list[Path]) -> None:
    mesh = merged(MESH, *on_top)
    assert broken_rules(mesh) == []
    assert {name for name, one in mesh["services"].items() if one.get("ports")} == PUBLISHED


def test_the_rules_can_be_broken() -> None:
    mesh = merged(MESH)
    mesh["services"]["redis"] |= {"ports": ["6379:6379"], "user": "root", "cap_add": ["SYS_ADMIN"]}
    assert broken_rules(mesh) == [
        "redis runs as root",
        "redis adds capabilities",
        "redis is published",
    ]


def test_only_the_gateway_and_its_clients_are_on_the_public_network() -> None:
    mesh = merged(MESH, CPU)
    public = {name for name, one in mesh["services"].items() if "public" in one.get("networks", [])}
    assert public == {"gateway", "loadgen"}
    assert mesh["networks"]["control"]["internal"] is True


def test_profiles_are_those_that_are_promised() -> None:
    profiles: dict[str, set[str]] = {}
    for name, service in merged(MESH)["services"].items():
        for profile in service["profiles"]:
            profiles.setdefault(profile, set()).add(name)
    assert profiles == {
        "control": {"redis", "controller", "gateway"},
        "node": {"node", "invoker"},
        "observe": {"prometheus", "grafana"},
        "load": {"loadgen"},
    }
    chosen = (ROOT / ".env").read_text("utf-8")
    assert re.search(r"^COMPOSE_PROFILES=control,node$", chosen, re.MULTILINE)


def test_no_service_waits_for_one_of_another_profile() -> None:
    """A host may have the one and not the other."""
    services = merged(MESH, CPU)["services"]
    for name, service in services.items():
        for other in service.get("depends_on", {}):
            assert set(service["profiles"]) <= set(services[other]["profiles"]), name


def test_every_service_has_its_own_certificate_and_nobody_the_authority_s_key() -> None:
    mesh = merged(MESH, CPU)
    for name, service in mesh["services"].items():
        keys = [secret for secret in service.get("secrets", []) if secret.endswith(".key")]
        assert len(keys) <= 1, name
    files = [secret["file"] for secret in mesh["secrets"].values()]
    assert not any("ca.key" in file for file in files)


@pytest.mark.parametrize("on_top", [[], [CPU]], ids=["GPU", "CPU"])
def test_settings_in_the_compose_files_are_known_to_services(on_top: list[Path]) -> None:
    for service in merged(MESH, *on_top)["services"].values():
        given = {
            key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
            for key, value in service.get("environment", {}).items()
        }
        Settings(given)  # refuses what it does not know


@pytest.mark.parametrize("file", FILES[2:], ids=lambda file: file.name)
def test_ports_published_on_demand_are_not_for_everyone(file: Path) -> None:
    for service in yaml.safe_load(file.read_text("utf-8"))["services"].values():
        for port in service["ports"]:
            assert port.startswith(("127.0.0.1:", "${MESH_ADDRESS:-127.0.0.1}:"))


def test_every_package_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    wanted = {name for name in packages if (ROOT / name).is_dir()}
    taken = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert wanted <= {line.removeprefix("!") for line in taken if line.startswith("!")}


def test_models_for_gpus_stay_out_of_the_image() -> None:
    """Slices are given them from outside; exported, they are hundreds of megabytes."""
    rules = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    (left_out,) = [rule for rule in rules if "models/gpu" in rule]
    exported = PurePath("esg/functions/depth/models/gpu/1")
    assert exported.match(left_out)
    assert not (exported.parent / "config.pbtxt").match(left_out)
    assert rules.index(left_out) > rules.index("!esg")  # the last that fits decides


def test_files_that_are_secret_or_made_on_a_host_are_ignored_by_git() -> None:
    made = [
        "secrets/ca.key",
        "deploy/kubernetes/base/secrets/ca.key",
        "docker-compose.override.yml",
        "deploy/prometheus/nodes.json",
        "esg/functions/depth/models/gpu/1/model.onnx",
    ]
    command = ["git", "check-ignore", *made]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "not a git repository" in ran.stderr:
        pytest.skip("this is not a git repository")
    assert ran.stdout.splitlines() == made


def test_the_image_tunes_grpc_as_a_mesh_on_one_machine_does() -> None:
    for name, value in (GRPC_TUNING | MALLOC_TUNING).items():
        assert f"{name}={value}" in DOCKERFILE


def test_the_image_has_the_dependencies_that_the_tests_have() -> None:
    image, tests = (
        _pins(ROOT / file) for file in ("deploy/requirements.lock", "requirements.lock")
    )
    assert image
    assert image.items() <= tests.items()


@pytest.mark.skipif(not compose_tool(), reason="there is no Compose tool on this machine")
@pytest.mark.parametrize("on_top", [[], [CPU]], ids=["GPU", "CPU"])
def test_the_compose_tool_reads_the_files_as_we_do(on_top: list[Path]) -> None:
    files = [word for file in (MESH, *on_top) for word in ("-f", str(file))]
    command = [*compose_tool(), *files, "config"]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    read: dict[str, Any] = yaml.safe_load(ran.stdout)
    ours = merged(MESH, *on_top)
    chosen = {"control", "node"}
    wanted = {n for n, s in ours["services"].items() if chosen & set(s["profiles"])}
    assert wanted <= set(read["services"])
    for name in wanted:
        theirs = read["services"][name].get("environment", {})
        assert set(theirs) == set(ours["services"][name].get("environment", {})), name


def _pins(lock: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", lock.read_text("utf-8"), re.MULTILINE)
    return dict(found)
