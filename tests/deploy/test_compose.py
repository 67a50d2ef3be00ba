"""docker-compose.yml and the files on top of it, as they are written."""

import os
import re
import subprocess
import tomllib
from pathlib import Path, PurePath
from typing import Any

import pytest
import yaml

from esg.cli.access.rooms import PLACE
from esg.local.programs import GRPC_TUNING, MALLOC_TUNING
from esg.local.rooms import AUTHORITY, ROOMS
from esg.runtime.settings_file import Settings
from tests.deploy.engine import ROOT, compose_tool
from tests.deploy.rules import (
    FILLS_ROOMS,
    MESH,
    PUBLISHED,
    broken_rules,
    merged,
    rooms,
    specification_errors,
)

ON_TOP = sorted((ROOT / "deploy").glob("compose.*.yml"))
FILES = [MESH, *ON_TOP]
KEY = f"secrets-{AUTHORITY}"
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_compose_files_follow_the_compose_specification(file: Path) -> None:
    assert specification_errors(file) == ""


def test_the_check_of_the_specification_can_fail(tmp_path: Path) -> None:
    (tmp_path / "wrong.yml").write_text("services: {one: {imag: x}}\n")
    assert "imag" in specification_errors(tmp_path / "wrong.yml")


def test_services_have_no_right_they_do_not_need() -> None:
    mesh = merged(MESH)
    assert broken_rules(mesh) == []
    assert {name for name, one in mesh["services"].items() if one.get("ports")} == PUBLISHED


def test_the_rules_can_be_broken() -> None:
    mesh = merged(MESH)
    mesh["services"]["redis"] |= {"ports": ["6379:6379"], "user": "root", "cap_add": ["SYS_ADMIN"]}
    mesh["services"]["invoker"]["volumes"].append("secrets-authority:/run/authority:ro")
    mesh["services"]["gateway"] |= {"group_add": ["999"]}
    assert broken_rules(mesh) == [
        "redis runs as root",
        "redis adds capabilities",
        "redis is published",
        "gateway is in a group of others",
        "invoker sees secrets of others",
    ]


def test_only_the_gateway_and_its_clients_are_on_the_public_network() -> None:
    mesh = merged(MESH)
    public = {name for name, one in mesh["services"].items() if "public" in one.get("networks", [])}
    assert public == {"gateway", "loadgen", "cli"}
    assert mesh["networks"]["control"]["internal"] is True


def test_profiles_are_those_that_are_promised() -> None:
    profiles: dict[str, set[str]] = {}
    for name, service in merged(MESH)["services"].items():
        for profile in service["profiles"]:
            profiles.setdefault(profile, set()).add(name)
    assert profiles == {
        "control": {"redis", "controller", "gateway", FILLS_ROOMS},
        "node": {"invoker", FILLS_ROOMS},
        "gpu": {"redis", "controller", "gateway", "invoker-gpu", FILLS_ROOMS},
        "gpu-node": {"invoker-gpu", FILLS_ROOMS},
        "observe": {"prometheus", "grafana", FILLS_ROOMS},
        "profile": {"profiler", "redis", FILLS_ROOMS},
        "load": {"loadgen", FILLS_ROOMS},
        "cli": {"cli", FILLS_ROOMS},
    }
    chosen = (ROOT / ".env").read_text("utf-8")
    assert re.search(r"^COMPOSE_PROFILES=control,node$", chosen, re.MULTILINE)


def test_no_service_waits_for_one_of_another_profile() -> None:
    """A host may have the one and not the other."""
    services = merged(MESH)["services"]
    for name, service in services.items():
        for other in service.get("depends_on", {}):
            assert set(service["profiles"]) <= set(services[other]["profiles"]), name


def test_every_service_waits_for_its_own_secrets() -> None:
    """And only who makes them sees the authority's key."""
    services = merged(MESH)["services"]
    given = {name: rooms(service) for name, service in services.items()}
    made = given.pop(FILLS_ROOMS)
    assert {one.split(":")[0] for one in made} == {*(f"secrets-{name}" for name in ROOMS), KEY}
    for volume in made:
        name = volume.split(":")[0].removeprefix("secrets-")
        assert volume == f"secrets-{name}:{PLACE}/{name}"
        assert re.search(rf"mkdir .*\b{name}\b", DOCKERFILE), "whose the volume is"
    for name, found in given.items():
        wanted = {"invoker-gpu": "invoker", "profiler": "invoker", "prometheus": "observer"}.get(
            name, name
        )
        wanted = "client" if name in ("cli", "loadgen") else wanted
        assert found == ([] if name == "grafana" else [f"secrets-{wanted}:/run/secrets:ro"])
        if found:
            after = services[name]["depends_on"][FILLS_ROOMS]
            assert after == {"condition": "service_completed_successfully"}, name


def test_who_makes_the_secrets_speaks_with_nobody_and_ends() -> None:
    service = merged(MESH)["services"][FILLS_ROOMS]
    assert (service["network_mode"], service["restart"]) == ("none", "no")


def test_services_that_are_other_users_read_their_rooms_by_their_group() -> None:
    services = merged(MESH)["services"]
    own = services[FILLS_ROOMS]["user"]
    others = {
        (room.split(":")[0].removeprefix("secrets-"), service["user"].split(":")[1])
        for service in services.values()
        for room in rooms(service)
        if service["user"] != own
    }
    command = services[FILLS_ROOMS]["command"]
    assert {f"--group={name}={group}" for name, group in others} == {
        word for word in command if word.startswith("--group=")
    }
    assert {group for _, group in others} == set(services[FILLS_ROOMS]["group_add"])


def test_an_invoker_with_gpus_differs_from_one_without_in_nothing_else() -> None:
    services = merged(MESH)["services"]
    one, other = services["invoker"], services["invoker-gpu"]
    changed = {key for key in {*one, *other} if one.get(key) != other.get(key)}
    assert changed == {
        *("profiles", "image", "build", "volumes", "mem_limit", "pids_limit", "deploy")
    }
    (device,) = other["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["count"]) == ("nvidia", "all")
    assert {"gpu", "compute", "utility"} <= set(device["capabilities"])  # NVML is a utility
    asking = {name for name, service in services.items() if "deploy" in service}
    assert asking == {"invoker-gpu", "profiler"}, (
        "where there is no container toolkit, such a container fails"
    )


def test_models_that_were_exported_on_a_host_are_seen_by_its_invoker() -> None:
    volumes = merged(MESH)["services"]["invoker-gpu"]["volumes"]
    assert "./esg/functions:/opt/app/esg/functions:ro" in volumes


def test_settings_in_the_compose_file_are_known_to_services() -> None:
    for service in merged(MESH)["services"].values():
        given = {
            key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
            for key, value in service.get("environment", {}).items()
        }
        Settings(given)  # refuses what it does not know


@pytest.mark.parametrize("file", ON_TOP, ids=lambda file: file.name)
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


def _names(files: list[Path]) -> str:
    return "+".join(file.stem for file in files) or "alone"


@pytest.mark.skipif(not compose_tool(), reason="there is no Compose tool on this machine")
@pytest.mark.parametrize("chosen", [("control", "node"), ("gpu",), ("gpu-node",)], ids=",".join)
@pytest.mark.parametrize("on_top", [[], *([file] for file in ON_TOP)], ids=_names)
def test_the_compose_tool_reads_the_files_as_we_do(
    on_top: list[Path], chosen: tuple[str, ...]
) -> None:
    files = [word for file in (MESH, *on_top) for word in ("-f", str(file))]
    command = [*compose_tool(), *files, "config"]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "COMPOSE_PROFILES": ",".join(chosen)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    read: dict[str, Any] = yaml.safe_load(ran.stdout)
    ours = merged(MESH, *on_top)
    wanted = {n for n, s in ours["services"].items() if set(chosen) & set(s["profiles"])}
    assert wanted <= set(read["services"])
    for name in wanted:
        theirs = read["services"][name].get("environment", {})
        assert set(theirs) == set(ours["services"][name].get("environment", {})), name


def _pins(lock: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", lock.read_text("utf-8"), re.MULTILINE)
    return dict(found)
