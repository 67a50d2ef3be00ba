"""The Kubernetes files: against the schemas of Kubernetes itself, and against our own rules."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from esg.runtime.rpc.addresses import service_name
from esg.runtime.security.authority import CALLERS, SERVICES
from esg.runtime.settings_file import Settings
from esg.runtime.slice_setting import Addresses, parse_slices
from tests.deploy.engine import ROOT
from tests.support.waiting import until

FOLDER = ROOT / "deploy" / "kubernetes"
MESHES = ("gpu", "cpu")
VERSIONS = ("1.30", "1.37")
KUSTOMIZATION = "kustomization.yaml"


def read(file: Path) -> list[Any]:
    return list(yaml.safe_load_all(file.read_text("utf-8")))


def resources(folder: Path) -> Iterator[Any]:
    """All that a kustomization brings, those that it builds on first."""
    (kustomization,) = read(folder / KUSTOMIZATION)
    for name in kustomization["resources"]:
        there = folder / name
        yield from resources(there) if there.is_dir() else read(there)


def of(mesh: str, *kinds: str) -> list[Any]:
    return [one for one in resources(FOLDER / mesh) if one["kind"] in kinds]


def pods(mesh: str) -> dict[str, Any]:
    """What runs, by the name of what has it run."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]
        for one in of(mesh, "Deployment", "StatefulSet")
    }


def containers(mesh: str) -> Iterator[tuple[str, Any]]:
    for pod in pods(mesh).values():
        for container in pod["spec"]["containers"]:
            yield container["name"], container


def shared_settings() -> dict[str, str]:
    """Those of the configuration map."""
    lines = (FOLDER / "base" / "mesh.env").read_text("utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def environment(container: Any) -> dict[str, str]:
    """What Kubernetes fills in itself is left out."""
    taken = {one["configMapRef"]["name"] for one in container.get("envFrom", [])}
    assert taken <= {"mesh"}
    own = {one["name"]: one["value"] for one in container.get("env", []) if "value" in one}
    return {**(shared_settings() if taken else {}), **own}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mesh", MESHES)
def test_every_resource_follows_the_schema_of_kubernetes(mesh: str, version: str) -> None:
    for resource in resources(FOLDER / mesh):
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("mesh", MESHES)
def test_no_pod_is_given_variables_for_every_service(mesh: str) -> None:
    for name, pod in pods(mesh).items():
        assert pod["spec"]["enableServiceLinks"] is False, name


def test_the_check_against_the_schema_can_fail() -> None:
    (gateway,) = of("cpu", "Deployment")
    gateway["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(gateway, VERSIONS[-1], strict=True)


def test_kustomizations_list_every_file_of_their_folder() -> None:
    for folder in (FOLDER / name for name in ("base", *MESHES)):
        (kustomization,) = read(folder / KUSTOMIZATION)
        listed = {name for name in kustomization["resources"] if name.endswith(".yaml")}
        assert listed == {file.name for file in folder.glob("*.yaml")} - {KUSTOMIZATION}


@pytest.mark.parametrize("mesh", MESHES)
def test_a_mesh_has_all_its_parts(mesh: str) -> None:
    found = {(one["kind"], one["metadata"]["name"]) for one in resources(FOLDER / mesh)}
    assert {
        ("Namespace", "esg"),
        ("StatefulSet", "redis"),
        ("StatefulSet", "controller"),
        ("Deployment", "gateway"),
        ("StatefulSet", "node"),
        ("Service", "gateway"),
        ("PodDisruptionBudget", "gateway"),
        ("PodDisruptionBudget", "node"),
        ("NetworkPolicy", "nobody"),
    } <= found


@pytest.mark.parametrize("mesh", MESHES)
def test_no_container_has_a_right_that_it_does_not_need(mesh: str) -> None:
    for name, pod in pods(mesh).items():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not spec.get("hostNetwork"), name
    for name, container in containers(mesh):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert "memory" in container["resources"]["limits"], name
        assert {"startupProbe", "readinessProbe"} & set(container), name
        assert "livenessProbe" in container, name


@pytest.mark.parametrize("mesh", MESHES)
def test_settings_in_the_kubernetes_files_are_known_to_services(mesh: str) -> None:
    for _, container in containers(mesh):
        Settings(environment(container))  # refuses what it does not know


def test_settings_for_all_are_said_once() -> None:
    """In the configuration map, which is made anew, under another name, when it changes."""
    (kustomization,) = read(FOLDER / "base" / KUSTOMIZATION)
    assert kustomization["configMapGenerator"] == [{"name": "mesh", "envs": ["mesh.env"]}]
    assert "generatorOptions" not in kustomization
    for name, container in [*containers("cpu"), *containers("gpu")]:
        own = {one["name"] for one in container.get("env", [])}
        assert not own & set(shared_settings()), name


def test_the_slices_of_a_gpu_node_are_as_many_as_its_container_asks_for() -> None:
    """And that is the only place where their number is said."""
    (slices,) = [one for name, one in containers("gpu") if name == "slices"]
    assert slices["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == 7
    (invoker,) = [one for name, one in containers("gpu") if name == "invoker"]
    assert "ESG_INVOKER_SLICES" not in environment(invoker)
    for one in (slices, invoker):
        mounts = {mount["name"]: mount["mountPath"] for mount in one["volumeMounts"]}
        assert mounts["shared"] == "/dev/shm"
    (kustomization,) = read(FOLDER / "gpu" / KUSTOMIZATION)
    assert kustomization["configMapGenerator"] == [{"name": "slices", "files": ["slices.sh"]}]
    assert slices["command"] == ["/opt/slices/slices.sh"]


STAND_INS = {
    "nvidia-smi": """#!/bin/sh
echo 'GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-9f8e7d6c-0000-0000-0000-000000000000)'
for place in 0 1 2; do
    echo "  MIG 1g.10gb     Device  $place: (UUID: MIG-1234abcd-0000-0000-0000-00000000000$place)"
done
""",
    "tritonserver": """#!/bin/sh
trap 'echo ended >> "$STARTED"; exit 0' TERM
echo "$CUDA_VISIBLE_DEVICES $*" >> "$STARTED"
while test ! -e "$STARTED.crash" || test "$1" != --id=slice-1; do sleep 0.02; done
rm "$STARTED.crash"
""",
}


@pytest.fixture
def slices(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The script of a node with three MIG devices, and what its Triton servers tell."""
    for name, text in STAND_INS.items():
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    told = tmp_path / "started"
    process = subprocess.Popen(
        [FOLDER / "gpu" / "slices.sh", tmp_path / "addresses"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "STARTED": str(told)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield process, told
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


async def test_a_triton_server_runs_on_every_device_and_one_that_ends_is_started_again(
    slices: tuple[subprocess.Popen[bytes], Path], tmp_path: Path
) -> None:
    process, told = slices
    await until(lambda: len(lines(told)) == 3)
    await until(lambda: (tmp_path / "addresses").exists())
    addresses = (tmp_path / "addresses").read_text("utf-8").strip()
    found = parse_slices(addresses)
    assert isinstance(found, Addresses)
    assert found.kinds == ("1g.10gb",) * 3
    started = [line.split() for line in sorted(lines(told))]
    assert [words[0][-1] for words in started] == ["0", "1", "2"]
    options = [dict(word.partition("=")[::2] for word in words[1:]) for words in started]
    assert [f"127.0.0.1:{one['--grpc-port']}" for one in options] == list(found.addresses)
    assert {one["--grpc-address"] for one in options} == {"127.0.0.1"}
    assert {one["--http-address"] for one in options} == {"127.0.0.1"}
    assert len({one["--http-port"] for one in options}) == 3

    told.with_suffix(".crash").touch()
    await until(lambda: len(lines(told)) == 4)
    assert lines(told)[3] == sorted(lines(told)[:3])[1]

    process.terminate()
    await until(lambda: process.poll() is not None)
    assert lines(told)[4:] == ["ended"] * 3


def test_secrets_are_those_that_esg_secrets_makes_and_each_has_its_own() -> None:
    (kustomization,) = read(FOLDER / "base" / KUSTOMIZATION)
    made = {f"{name}.{end}" for name in (*SERVICES, *CALLERS) for end in ("pem", "key")}
    made |= {"ca.pem", "tokens.toml"}
    for secret in kustomization["secretGenerator"]:
        files = {Path(file).name for file in secret["files"]}
        assert files <= made
        assert [file for file in files if file.endswith(".key")] == [f"{secret['name']}.key"]
    names = {secret["name"] for secret in kustomization["secretGenerator"]}
    for name, pod in pods("gpu").items():
        wanted = [v["secret"]["secretName"] for v in pod["spec"]["volumes"] if "secret" in v]
        assert set(wanted) <= names, name


@pytest.mark.parametrize("mesh", MESHES)
def test_network_policies_let_through_every_call_that_the_settings_name(mesh: str) -> None:
    """An address in the settings of one has a service, and a policy that lets it through."""
    policies = {one["metadata"]["name"]: one["spec"] for one in of(mesh, "NetworkPolicy")}
    services = {one["metadata"]["name"]: one["spec"] for one in of(mesh, "Service")}
    for name, container in containers(mesh):
        own = (f"ESG_{name.upper()}_", "ESG_REDIS_")  # all are given the settings of all
        text = " ".join(v for k, v in environment(container).items() if k.startswith(own))
        for host, port in re.findall(r"\b(controller|redis):(\d+)", text):
            assert int(port) in [one["port"] for one in services[host]["ports"]], name
            spec = policies["to-redis" if host == "redis" else "to-the-controller"]
            (rule,) = spec["ingress"]
            assert rule["ports"] == [{"protocol": "TCP", "port": int(port)}]
            (source,) = rule["from"]
            (expression,) = source["podSelector"]["matchExpressions"]
            caller = "node" if name == "invoker" else name
            assert caller in expression["values"]
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def examples() -> list[Any]:
    """The YAML in the README."""
    text = (FOLDER / "README.md").read_text("utf-8")
    return [
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
    ]


def test_pod_in_the_readme_is_one_that_the_namespace_lets_in() -> None:
    (pod,) = [one for one in examples() if one.get("kind") == "Pod"]
    for version in VERSIONS:
        kubernetes_validate.validate(pod, version, strict=True)
    assert pod["spec"]["securityContext"] == pods("gpu")["node"]["spec"]["securityContext"]
    (claim,) = of("gpu", "PersistentVolumeClaim")
    (volume,) = pod["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}


def test_scrape_config_in_the_readme_reads_every_pod_that_has_metrics() -> None:
    (found,) = [one for one in examples() if "scrape_configs" in one]
    scraped = {}
    for job in found["scrape_configs"]:
        rules = {tuple(rule["source_labels"]): rule for rule in job["relabel_configs"]}
        app = rules[("__meta_kubernetes_pod_label_app",)]["regex"]
        scraped[app] = job["tls_config"]["server_name"]
        files = {Path(v).name for k, v in job["tls_config"].items() if k.endswith("_file")}
        assert files == {"ca.pem", "observer.pem", "observer.key"}
    wanted = {
        pod["metadata"]["labels"]["app"]: service_name(container["args"][0])
        for pod in pods("gpu").values()
        for container in pod["spec"]["containers"]
        if any(port["name"] == "metrics" for port in container.get("ports", []))
    }
    assert scraped == wanted
