"""The catalog `measured-shapes`: the default one, with the GPU parts of measured networks."""

import tomllib
from pathlib import Path

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.shipped import DEFAULT, SHIPPED
from esg.units import ms

HOME = SHIPPED["measured-shapes"].parent
NAMES = list(load_catalog().functions)


@pytest.fixture(scope="module")
def shapes() -> Catalog:
    return load_catalog(SHIPPED["measured-shapes"])


@pytest.fixture(scope="module")
def default() -> Catalog:
    return load_catalog()


def test_all_but_the_shape_of_gpu_parts_is_as_in_the_default(
    shapes: Catalog, default: Catalog
) -> None:
    assert list(shapes.functions) == NAMES
    for name, one in shapes.functions.items():
        other = default.function(name)
        for told in ("cold_start_us", "input_bytes", "memory_mb", "model", "handler", "cpu"):
            assert getattr(one, told) == getattr(other, told)
        assert (one.folder, one.profile.configs) == (other.folder, other.profile.configs)
        for vcpus in (1, 2, 16):
            for vgpus in (1, 2, 7):
                config = Config(1, vcpus, vgpus)
                assert one.profile.time_us_of(config) == other.profile.time_us_of(config)
    slos = {name: found.slo_us for name, found in shapes.applications.items()}
    assert slos == {name: found.slo_us for name, found in default.applications.items()}
    assert (shapes.cluster, shapes.prices) == (default.cluster, default.prices)


@pytest.mark.parametrize(
    ("function", "measured_ms"),
    [
        ("classification", (5.0823, 7.2969, 12.6055, 22.3291)),  # ResNet50
        ("segmentation", (9.5014, 11.6839, 20.1399, 34.3901)),  # ResNet101
        ("depth", (13.0762, 16.1985, 27.8814, 47.5619)),  # ResNet152
        ("background-removal", (20.5897, 20.5897, 25.7061, 42.9452)),  # DenseNet201, 2 as 1
    ],
)
def test_a_gpu_part_grows_as_the_measured_network_on_one_slice(
    shapes: Catalog, function: str, measured_ms: tuple[float, ...]
) -> None:
    """What is left of a task's time without the CPU part, which one vCPU does job by job."""
    told = tomllib.loads((HOME / f"{function}.toml").read_text("utf-8"))["model"]
    cpu_us = ms(told["base_ms"] * told["cpu_share"])
    profile = shapes.function(function).profile
    alone_us = profile.time_us_of(Config(1, 1, 1)) - cpu_us
    for batch, time_ms in zip((1, 2, 4, 8), measured_ms, strict=True):
        gpu_us = profile.time_us_of(Config(batch, 1, 1)) - batch * cpu_us
        assert gpu_us / alone_us == pytest.approx(time_ms / measured_ms[0], rel=0.001)


@pytest.mark.parametrize("function", ["super-resolution", "deblur"])
def test_image_to_image_networks_gain_as_little_from_batches_as_cyclegan(
    shapes: Catalog, function: str
) -> None:
    told = tomllib.loads((HOME / f"{function}.toml").read_text("utf-8"))["model"]
    growth = {int(portion): times for portion, times in told["gpu_growth"].items()}
    for portion, time_ms in {2: 565.0, 3: 825.3}.items():
        assert growth[portion] == pytest.approx(time_ms / 311.4, rel=0.001)
    assert growth[8] == pytest.approx(growth[3] + 5 * (growth[3] - 1) / 2, rel=0.001)


@pytest.mark.parametrize("function", NAMES)
def test_every_shape_says_where_it_is_from_and_where_it_ends(function: str) -> None:
    told = tomllib.loads((HOME / f"{function}.toml").read_text("utf-8"))["provenance"]
    for key in ("network", "data_set", "file", "interpolated", "limits"):
        assert told[f"gpu_growth_{key}"]
    assert "licence MIT" in told["gpu_growth_data_set"]


def test_it_can_be_extended_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'extends = "measured-shapes"\n[applications.near]\nchain = ["depth"]\nslo_ms = 900\n'
    )
    mine, shapes = load_catalog(file), load_catalog(SHIPPED["measured-shapes"])
    assert [*shapes.applications, "near"] == list(mine.applications)
    profile = mine.application("near").stages["depth"].function.profile
    assert profile.time_us.tolist() == shapes.function("depth").profile.time_us.tolist()


def test_the_default_is_what_has_no_name_and_what_is_called_so() -> None:
    assert SHIPPED["default"] == DEFAULT
