"""`esg compose`: the part of docker-compose.yml that depends on a host's GPUs, on made-up ones."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import pytest
import yaml

from esg.cli.bringup import compose
from esg.core.catalog.file import load_catalog
from esg.invoker.slices.mig import find_instances
from tests.component.cli.conftest import Run
from tests.component.cli.conftest import esg as esg
from tests.component.invoker.test_mig import Gpu, Nvml, instance
from tests.deploy.rules import MESH, broken_rules, merged, specification_errors

A100 = Gpu(instances={n: instance(n, "1g.10gb", 9728) for n in range(7)})
A30 = Gpu(name="NVIDIA A30", instances={n: instance(100 + n, "1g.6gb", 5952) for n in range(4)})
ONE_GPU, TWO_GPUS = Nvml(A100), Nvml(A100, A30)


@pytest.fixture
def make(esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the command writes on a host with these instances."""

    def made(nvml: Nvml) -> dict[str, Any]:
        monkeypatch.setattr(compose, "find_instances", partial(find_instances, nvml))
        file = tmp_path / "docker-compose.override.yml"
        ran = esg("compose", "--output", file)
        assert (ran.code, ran.out.splitlines()[0]) == (
            0,
            f"{file}: {len(find_instances(nvml))} slices",
        )
        told = json.loads(esg("compose", "--output", file, "--json").out)
        assert [one["uuid"] for one in told["slices"]] == [i.uuid for i in find_instances(nvml)]
        assert specification_errors(file) == ""
        return merged(MESH, file)

    return made


@pytest.mark.parametrize("nvml", [ONE_GPU, TWO_GPUS], ids=["one GPU", "two GPUs"])
def test_every_instance_has_a_triton_server_of_its_own(make: Any, nvml: Nvml) -> None:
    services = make(nvml)["services"]
    instances = find_instances(nvml)
    slices = {name: service for name, service in services.items() if name.startswith("slice-")}
    assert len(slices) == len(instances)
    for found, service in zip(instances, slices.values(), strict=True):
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert device == {
            "driver": "nvidia",
            "device_ids": [found.uuid],
            "capabilities": ["gpu"],
        }
    addresses = services["invoker"]["environment"]["ESG_INVOKER_SLICES"].split(",")
    ports = [_option(service, "--grpc-port") for service in slices.values()]
    assert addresses == [f"127.0.0.1:{port}" for port in ports]
    assert len({*ports, *(_option(one, "--http-port") for one in slices.values())}) == 2 * len(
        ports
    )


def test_slices_share_network_and_memory_with_their_invoker_alone(make: Any) -> None:
    mesh = make(ONE_GPU)
    catalog = load_catalog()
    for name, service in mesh["services"].items():
        if name != "invoker" and not name.startswith("slice-"):
            continue
        assert service["network_mode"] == "service:node", name
        assert "networks" not in service, name
        shared = [v for v in service["volumes"] if v.get("source") == "shared"]
        assert [volume["target"] for volume in shared] == ["/dev/shm"], name
    models = [v for v in mesh["services"]["slice-0"]["volumes"] if v["type"] == "bind"]
    assert {volume["target"] for volume in models} == {f"/models/{n}" for n in catalog.functions}
    assert all(Path(volume["source"], "config.pbtxt").is_file() for volume in models)
    assert all(volume["read_only"] for volume in models)
    assert list(mesh["services"]["node"]["networks"]) == ["control"]
    assert mesh["volumes"]["shared"]["driver_opts"]["type"] == "tmpfs"


def test_the_invoker_starts_when_all_its_slices_are_healthy(make: Any) -> None:
    after = make(ONE_GPU)["services"]["invoker"]["depends_on"]
    healthy = {name for name, how in after.items() if how["condition"] == "service_healthy"}
    assert healthy == {f"slice-{n}" for n in range(7)}


def test_a_slice_that_could_not_load_a_model_is_healthy_still(make: Any) -> None:
    """Triton is not ready any more then, for good, and an invoker could not be started again."""
    services = make(ONE_GPU)["services"]
    for number in range(7):
        *_, url = services[f"slice-{number}"]["healthcheck"]["test"]
        assert url == f"http://127.0.0.1:{9100 + number}/v2/health/live"


def test_slices_of_different_sizes_count_with_the_least(make: Any) -> None:
    environment = make(TWO_GPUS)["services"]["invoker"]["environment"]
    assert environment["ESG_INVOKER_SLICE_MEMORY_MB"] == "5952"


def test_slices_have_no_more_rights_than_the_rest(make: Any) -> None:
    assert broken_rules(make(TWO_GPUS)) == []


@pytest.mark.parametrize(
    ("nvml", "words"),
    [
        (Nvml(start=pynvml.NVMLError_LibraryNotFound), "there is no NVIDIA driver; install one"),
        (Nvml(), "the driver sees no GPU"),
        (Nvml(Gpu(mode=(0, 0))), "is not in MIG mode; put the GPU into MIG mode (sudo nvidia-smi"),
    ],
    ids=["no driver", "no GPU", "no MIG"],
)
def test_a_host_without_instances_is_told_what_to_do(
    nvml: Nvml, words: str, esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "find_instances", partial(find_instances, nvml))
    ran = esg("compose", "--output", tmp_path / "gpu.yml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: slices mig: ")
    assert words in ran.err
    assert not list(tmp_path.iterdir())


def test_functions_whose_model_was_not_exported_are_named(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "edges"
    (folder / "models/gpu").mkdir(parents=True)
    (folder / "function.toml").write_text('description = "d"\n')
    (tmp_path / "p.toml").write_text(
        'function = "edges"\n[provenance]\nkind = "guessed"\n[grid]\nbatch = [1]\nvcpus = [1]\n'
        "vgpus = [1]\n[model]\nbase_ms = 40\ncpu_share = 0.6\nparallel_fraction = 0.9\n"
        "gpu_fixed_share = 0.3\n"
    )
    (tmp_path / "catalog.toml").write_text(
        "[cluster]\nnodes = 1\nvcpus = 4\nvgpus = 2\nslice_memory_mb = 1000\n"
        '[functions.edges]\nfolder = "edges"\nprofile = "p.toml"\ncold_start_ms = 3\n'
        "memory_mb = 10\ninput_mb = 0.5\n"
        '[applications.drawing]\nchain = ["edges"]\nslo_ms = 2000\n'
    )
    monkeypatch.setattr(compose, "find_instances", partial(find_instances, ONE_GPU))
    ran = esg("compose", "--output", tmp_path / "gpu.yml", "--catalog", tmp_path / "catalog.toml")
    assert (ran.code, "edges has no model for GPUs yet" in ran.err) == (0, True)
    (folder / "models/gpu/1").mkdir()
    (folder / "models/gpu/1/model.onnx").touch()
    ran = esg("compose", "--output", tmp_path / "gpu.yml", "--catalog", tmp_path / "catalog.toml")
    assert (ran.code, ran.err) == (0, "")
    assert (
        "edges/models/gpu"
        in yaml.safe_load((tmp_path / "gpu.yml").read_text())["x-slice"]["volumes"][1]["source"]
    )


def _option(service: dict[str, Any], name: str) -> str:
    (found,) = [word for word in service["command"] if word.startswith(f"{name}=")]
    return str(found).partition("=")[2]
