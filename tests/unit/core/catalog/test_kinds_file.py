"""Catalogs whose slices differ: kinds, classes of nodes, and what is refused of them."""

import re
from pathlib import Path

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import USUAL, NodeClass, SliceKind
from esg.errors import Rejected
from esg.units import ms
from tests.unit.core.catalog.test_file import CATALOG, FILES, load
from tests.unit.core.catalog.test_refusals import as_regex

ALIKE = "nodes = 2\nvcpus = 16\nvgpus = 7\nslice_memory_mb = 10_000\n"
KINDS = """
[kinds]
"3g.40gb" = {}
gpu-L4 = { memory_mb = 24_000, usd_per_hour = 0.8 }
"""
CLASSES = """kind = "1g.10gb"
classes = [
    { count = 2, vcpus = 16, slices = "7x1g.10gb" },
    { count = 1, vcpus = 24, slices = "3g.40gb + gpu-L4 + 2" },
]
"""
MODEL_KINDS = """
[model.kinds."3g.40gb"]
speedup = 2.0
"""
KINDS_TABLE = """\
batch,vcpus,vgpus,time_ms,kind
1,1,1,40,
2,1,1,70.5,1g.10gb
1,1,1,10,gpu-L4
1,1,1,5,gpu-of-somebody-else
"""
MIXED = FILES | {
    "catalog.toml": CATALOG.replace(ALIKE, CLASSES) + KINDS,
    "detect.toml": FILES["detect.toml"] + MODEL_KINDS,
    "classify.csv": KINDS_TABLE,
}


@pytest.fixture
def mixed(tmp_path: Path) -> Catalog:
    return load(tmp_path, MIXED)


def test_kinds_are_the_usual_one_and_those_that_are_named(mixed: Catalog) -> None:
    """A MIG instance has the memory that its name says, and its price is by GPCs."""
    assert mixed.kinds == {
        USUAL: SliceKind(name="1g.10gb", memory_mb=10_000, usd_per_hour=0.67),
        "3g.40gb": SliceKind(name="3g.40gb", memory_mb=40_000, usd_per_hour=3 * 0.67),
        "gpu-L4": SliceKind(name="gpu-L4", memory_mb=24_000, usd_per_hour=0.8),
    }
    assert mixed.prices.slice_usd_per_hour("gpu-L4") == 0.8
    assert mixed.memories_mb(["gpu-L4", USUAL]) == (24_000, 10_000)


def test_nodes_of_a_cluster_are_of_its_classes(mixed: Catalog) -> None:
    large = NodeClass(count=1, vcpus=24, slices=("3g.40gb", "gpu-L4", USUAL, USUAL))
    cluster = mixed.cluster
    assert cluster.classes == (NodeClass(count=2, vcpus=16, slices=(USUAL,) * 7), large)
    assert [one.vcpus for one in cluster.each()] == [16, 16, 24]
    assert cluster.kinds() == (USUAL, "3g.40gb", "gpu-L4")
    assert (cluster.nodes, cluster.vcpus, cluster.vgpus) == (3, 24, 7)


def test_profiles_say_what_functions_take_on_each_kind_that_the_catalog_knows(
    mixed: Catalog,
) -> None:
    """The price of a slice orders the kinds: the cheapest is first."""
    detect, classify = mixed.function("detect").profile, mixed.function("classify").profile
    assert detect.kinds == (USUAL, "3g.40gb")
    assert detect.time_us_of(Config(1, 1, 1)) == ms(100)
    assert detect.time_us_of(Config(1, 1, 1, "3g.40gb")) == ms(50 + 50 / 2)
    assert classify.configs == (Config(1, 1, 1), Config(1, 1, 1, "gpu-L4"), Config(2, 1, 1))


def test_configs_that_no_node_can_give_are_left_out(tmp_path: Path) -> None:
    table = KINDS_TABLE + "2,30,1,1,gpu-L4\n1,20,1,20,gpu-L4\n1,1,2,3,gpu-L4\n"
    here = load(tmp_path, MIXED | {"classify.csv": table})
    own = [c for c in here.function("classify").profile.configs if c.kind == "gpu-L4"]
    assert own == [Config(1, 1, 1, "gpu-L4"), Config(1, 20, 1, "gpu-L4")]


def test_what_is_known_of_slices_that_the_cluster_has_not_got_is_kept(tmp_path: Path) -> None:
    """Nodes may come that have them."""
    without = MIXED["catalog.toml"].replace("3g.40gb + gpu-L4 + 2", "gpu-L4 + 2")
    here = load(tmp_path, MIXED | {"catalog.toml": without})
    assert here.cluster.kinds() == (USUAL, "gpu-L4")
    assert here.function("detect").profile.kinds == (USUAL, "3g.40gb")


def test_slices_go_by_the_most_specific_name_that_the_catalog_knows(mixed: Catalog) -> None:
    assert mixed.kind_of(["1g.10gb"]) == USUAL
    assert mixed.kind_of(["gpu-L4-24gb", "gpu-L4"]) == "gpu-L4"
    assert mixed.kind_of(["2g.20gb"]) == "2g.20gb"  # where nothing is planned


def test_the_old_form_is_one_of_slices_that_need_no_name(tmp_path: Path) -> None:
    here = load(tmp_path, FILES)
    assert here.cluster.classes == (NodeClass(count=2, vcpus=16, slices=(USUAL,) * 7),)
    assert here.slice_memory_mb == 10_000
    assert here.kind_of(["3g.40gb"]) == USUAL


REFUSED = {
    ("[kinds]", "[kinds]\nmy-gpu = {}"): "kinds.my-gpu.memory_mb: is missing; add it",
    ("memory_mb = 24_000, usd", "usd"): "kinds.gpu-L4.memory_mb: is missing; add it",
    (", usd_per_hour = 0.8", ""): "kinds.gpu-L4.usd_per_hour: is missing; add it",
    ("usd_per_hour = 0.8", "usd_per_hour = -1"): (
        "kinds.gpu-L4.usd_per_hour: is -1; it must be at least 0"
    ),
    (
        "[kinds]",
        '[kinds]\n"a b" = {}',
    ): "kinds.a b: 'a b' cannot be a kind...as in 3g.40gb, gpu-L4...",
    ("[kinds]", '[kinds]\n"1g.10gb" = {}'): "kinds.1g.10gb: is the usual kind: ...",
    ('kind = "1g.10gb"', "slice_memory_mb = 5"): "cluster.kind: is missing: ...name the usual ones",
    ("7x1g.10gb", "7x1g.20gb"): "cluster.classes[0].slices: ...; did you mean '1g.10gb'?",
    ("7x1g.10gb", ""): "cluster.classes[0].slices: is ''; it must be a non-empty text",
    ("7x1g.10gb", "0"): "cluster.classes[0].slices: '0': 0 slices; a node has 1 to 1000",
    (
        "7x1g.10gb",
        "1g.10gb++1",
    ): "cluster.classes[0].slices: ...is no number of slices, as in 2x...",
    ("count = 1", "count = 0"): "cluster.classes[1].count: is 0; it must be at least 1",
    ("vcpus = 24, ", ""): "cluster.classes[1].vcpus: is missing; add it",
    ("vcpus = 24", "vcpus = 24, vgpus = 3"): "cluster.classes[1].vgpus: ...",
    ("classes = [", "nodes = 3\nclasses = ["): "cluster.nodes: ...",
    ("classes = [", "classes = []\nothers = ["): (
        "cluster.classes: must be a list of tables, at least one"
    ),
}


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_mistake_about_kinds_is_refused_where_it_is_with_what_to_do(
    tmp_path: Path, old: str, new: str
) -> None:
    text = MIXED["catalog.toml"]
    assert old in text
    with pytest.raises(Rejected) as refused:
        load(tmp_path, MIXED | {"catalog.toml": text.replace(old, new, 1)})
    told = str(refused.value)
    expected = f"{tmp_path}/catalog.toml: {REFUSED[old, new]}"
    assert re.fullmatch(as_regex(expected), told), told


def test_function_that_runs_on_no_slice_of_the_cluster_is_refused(tmp_path: Path) -> None:
    nodes = MIXED["catalog.toml"].replace("7x1g.10gb", "3g.40gb").replace(" + gpu-L4 + 2", "")
    with pytest.raises(Rejected, match=r"functions\.classify\.profile.*3g\.40gb.*esg profile"):
        load(tmp_path, MIXED | {"catalog.toml": nodes})


def test_table_that_has_a_config_of_a_kind_twice_is_refused(tmp_path: Path) -> None:
    table = KINDS_TABLE + "1,1,1,10,gpu-L4\n"
    with pytest.raises(Rejected, match=r"classify\.csv:6: config 1/1/1xgpu-L4 appears twice"):
        load(tmp_path, MIXED | {"classify.csv": table})
