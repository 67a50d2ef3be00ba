"""Catalogs from files: the default one, and one with splits and joins and a measured table."""

from pathlib import Path

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.dag import Parallel
from esg.core.catalog.file import load_catalog
from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.model import Catalog, scaled
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.journal.format import functions_digest
from esg.errors import Rejected
from esg.units import ms
from tests.support.paths import ROOT

CATALOG = """
[cluster]
nodes = 2
vcpus = 16
vgpus = 7
slice_memory_mb = 10_000

[functions.detect]
profile = "detect.toml"
cold_start_ms = 1000
input_mb = 1.5
memory_mb = 500

[functions.classify]
profile = "classify.toml"
cold_start_ms = 2000
input_mb = 0.25
memory_mb = 700

[applications.street]
slo_ms = 400

[applications.street.stages.detect]

[applications.street.stages.cars]
function = "classify"
after = ["detect"]

[applications.street.stages.signs]
function = "classify"
after = ["detect"]

[applications.street.stages.merge]
function = "detect"
after = ["cars", "signs"]
"""

MODELLED = """
function = "detect"

[provenance]
kind = "modelled"

[grid]
batch = [1, 2]
vcpus = [1, 2]
vgpus = [1]

[model]
base_ms = 100
cpu_share = 0.5
parallel_fraction = 1.0
gpu_fixed_share = 0.2
"""

MEASURED = """
function = "classify"

[provenance]
kind = "measured"

[measured]
table = "classify.csv"
"""

TABLE = """\
# measured on a Tuesday
batch,vcpus,vgpus,time_ms
1,1,1,40
2,1,1,70.5
4,1,1,oom
8,1,1,
"""

PHASED_TABLE = """\
batch,vcpus,vgpus,time_ms,slices_ms,after_ms
1,1,1,40,30,
1,2,1,30,,
2,1,1,70.5,50,10
2,2,1,0.3,0.1,0.2
4,1,1,oom,,
4,2,1,80,,10
8,1,1,0.003,0.0015,0.0015
"""

FILES = {
    "catalog.toml": CATALOG,
    "detect.toml": MODELLED,
    "classify.toml": MEASURED,
    "classify.csv": TABLE,
}


def load(folder: Path, files: dict[str, str]) -> Catalog:
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return load_catalog(folder / "catalog.toml")


# The default catalog.


@pytest.fixture(scope="module")
def default() -> Catalog:
    return load_catalog()


@pytest.mark.parametrize(
    ("name", "time_ms", "cold_start_ms", "input_bytes"),
    [
        ("super-resolution", 86, 3503, 2_700_000),
        ("segmentation", 293, 16510, 2_500_000),
        ("deblur", 319, 22343, 1_100_000),
        ("classification", 147, 18299, 147_000),
        ("background-removal", 1047, 3729, 2_500_000),
        ("depth", 828, 16479, 648_000),
    ],
)
def test_the_default_functions_have_the_numbers_of_the_paper(
    default: Catalog, name: str, time_ms: int, cold_start_ms: int, input_bytes: int
) -> None:
    function = default.function(name)
    assert function.profile.time_us_of(Config(1, 1, 1)) == ms(time_ms)
    assert function.cold_start_us == ms(cold_start_ms)
    assert function.input_bytes == input_bytes


def test_the_default_catalog_has_six_functions_with_256_configs_each(default: Catalog) -> None:
    """On its own cluster; slices of other kinds have configs of their own."""
    here = on_its_cluster(default)
    assert [len(f.profile.configs) for f in here.functions.values()] == [256] * 6
    assert all(f.profile.minimum == Config(1, 1, 1) for f in default.functions.values())


def test_the_default_slo_is_the_time_alone_at_the_minimum_config(default: Catalog) -> None:
    alone = {name: app.alone_us for name, app in default.applications.items()}
    assert alone == {
        "image-classification": ms(526),
        "depth-recognition": ms(1233),
        "background-elimination": ms(1452),
        "expanded-image-classification": ms(1892),
    }
    assert {name: app.slo_us for name, app in default.applications.items()} == alone


def test_the_default_cluster_and_prices_are_those_of_the_paper(default: Catalog) -> None:
    cluster = default.cluster
    assert (cluster.nodes, cluster.vcpus, cluster.vgpus) == (16, 16, 7)
    prices = default.prices
    assert (prices.vcpu_usd_per_hour, prices.vgpu_usd_per_hour) == (0.034, 0.67)


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(default: Catalog) -> None:
    with pytest.raises(Rejected, match="did you mean 'image-classification'"):
        default.application("image-clasification")
    with pytest.raises(Rejected, match="did you mean 'deblur'"):
        default.function("deblurr")


# A catalog of our own.


def test_splits_and_joins_are_read_from_stages(tmp_path: Path) -> None:
    street = load(tmp_path, FILES).application("street")
    assert street.series == ("detect", Parallel((("cars",), ("signs",))), "merge")
    assert street.root == "detect"
    assert street.successors["detect"] == ("cars", "signs")
    assert street.stages["cars"].function is street.stages["signs"].function
    assert street.slo_us == ms(400)
    assert street.alone_us == ms(100 + 40 + 100)


def test_stages_may_be_written_in_any_order(tmp_path: Path) -> None:
    head, _, stages = CATALOG.partition("[applications.street.stages.detect]")
    backwards = head + stages + "[applications.street.stages.detect]\n"
    street = load(tmp_path, FILES | {"catalog.toml": backwards}).application("street")
    assert street.root == "detect"
    assert street.series == ("detect", Parallel((("cars",), ("signs",))), "merge")


def test_an_open_split_has_two_sinks(tmp_path: Path) -> None:
    head, _, _ = CATALOG.partition("[applications.street.stages.merge]")
    street = load(tmp_path, FILES | {"catalog.toml": head}).application("street")
    assert street.series == ("detect", Parallel((("cars",), ("signs",))))
    assert street.alone_us == ms(140)


def test_an_slo_may_be_a_multiple_of_the_time_alone(tmp_path: Path) -> None:
    multiple = CATALOG.replace("slo_ms = 400", "slo_scale = 0.8")
    street = load(tmp_path, FILES | {"catalog.toml": multiple}).application("street")
    assert street.slo_us == ms(192)


def test_an_application_says_what_becomes_of_late_requests(tmp_path: Path) -> None:
    assert load(tmp_path, FILES).application("street").late_requests is LateRequests.FINISH
    dropping = CATALOG.replace("slo_ms = 400", 'slo_ms = 400\nlate_requests = "drop"')
    catalog = load(tmp_path, FILES | {"catalog.toml": dropping})
    assert catalog.application("street").late_requests is LateRequests.DROP
    assert scaled(catalog, 2).application("street").late_requests is LateRequests.DROP


def test_cells_that_are_empty_or_out_of_memory_are_left_out(tmp_path: Path) -> None:
    profile = load(tmp_path, FILES).function("classify").profile
    assert profile.configs == (Config(1, 1, 1), Config(2, 1, 1))
    assert profile.time_us.tolist() == [40_000, 70_500]
    assert profile.provenance == "kind: measured"


def test_a_measured_time_below_a_microsecond_counts_as_one(tmp_path: Path) -> None:
    table = TABLE.replace("1,1,1,40", "1,1,1,0.0001")
    profile = load(tmp_path, FILES | {"classify.csv": table}).function("classify").profile
    assert profile.time_us_of(Config(1, 1, 1)) == 1


def test_a_measured_table_may_say_what_is_spent_on_the_slices_and_after(tmp_path: Path) -> None:
    """What is not known to be a CPU part counts as spent there."""
    profile = load(tmp_path, FILES | {"classify.csv": PHASED_TABLE}).function("classify").profile
    assert {str(config): profile.phases_of(config) for config in profile.configs} == {
        "1/1/1": (ms(10), ms(30), 0),
        "1/2/1": (0, ms(30), 0),
        "2/1/1": (ms(10.5), ms(50), ms(10)),
        "2/2/1": (0, ms(0.1), ms(0.2)),
        "4/2/1": (0, ms(70), ms(10)),
        "8/1/1": (0, 1, 2),
    }


def test_a_modelled_time_below_a_microsecond_counts_as_one(tmp_path: Path) -> None:
    model = MODELLED.replace("base_ms = 100", "base_ms = 0.0001")
    profile = load(tmp_path, FILES | {"detect.toml": model}).function("detect").profile
    assert profile.time_us_of(Config(1, 1, 1)) == 1


def test_a_function_may_name_the_code_of_its_cpu_part(tmp_path: Path) -> None:
    text = CATALOG.replace("memory_mb = 500", 'memory_mb = 500\nhandler = "shop.vision:Detect"')
    catalog = load(tmp_path, FILES | {"catalog.toml": text})
    assert catalog.function("detect").handler == "shop.vision:Detect"
    assert catalog.function("classify").handler == ""


# A catalog that extends the default one.


def extending(folder: Path, text: str) -> Catalog:
    return load(folder, FILES | {"catalog.toml": f'extends = "default"\n{text}'})


def test_a_catalog_may_say_only_what_it_adds(tmp_path: Path, default: Catalog) -> None:
    ours = extending(tmp_path, '[applications.labels]\nchain = ["deblur", "classification"]\n')
    assert list(ours.applications) == [*default.applications, "labels"]
    assert ours.application("labels").alone_us == ms(319 + 147)
    assert functions_digest(ours) == functions_digest(default)
    assert [f.folder for f in ours.functions.values()] == [
        f.folder for f in default.functions.values()
    ]
    assert (ours.cluster, ours.prices) == (default.cluster, default.prices)


def test_catalog_file_wins_over_the_default_that_it_extends(
    tmp_path: Path, default: Catalog
) -> None:
    function = '[functions.depth]\nprofile = "depth.toml"\ncold_start_ms = 1\ninput_mb = 1\n'
    (tmp_path / "depth.toml").write_text(MODELLED.replace("detect", "depth"))
    ours = extending(
        tmp_path,
        "[cluster]\nnodes = 3\n[prices]\nvgpu_usd_per_hour = 1\n"
        f'{function}memory_mb = 5\n[applications.depth-recognition]\nchain = ["depth"]\n',
    )
    assert ours.cluster == default.cluster.resized(nodes=3)
    assert (ours.prices.vcpu_usd_per_hour, ours.prices.vgpu_usd_per_hour) == (0.034, 1)
    assert ours.prices.slice_usd_per_hour("3g.40gb") == 3
    assert ours.function("depth").memory_mb == 5
    assert ours.application("depth-recognition").alone_us == ms(100)
    assert list(ours.applications) == list(default.applications)
    cheaper = default.function("deblur").profile
    assert (ours.function("deblur").profile.job_cost_pusd > cheaper.job_cost_pusd).all()


def test_classes_of_nodes_take_the_place_of_nodes_that_are_alike(tmp_path: Path) -> None:
    slices = "3g.40gb+4x1g.10gb"
    ours = extending(
        tmp_path, f'[cluster]\nclasses = [{{ count = 2, vcpus = 20, slices = "{slices}" }}]\n'
    )
    (nodes,) = ours.cluster.classes
    assert (nodes.count, nodes.vcpus, nodes.slices) == (2, 20, ("3g.40gb", "", "", "", ""))


def test_the_catalog_in_the_docs_is_one_as_it_is_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "catalog.md").read_text("utf-8")
    (printed,) = [
        block.partition("```")[0]
        for block in page.split("```toml\n")[1:]
        if block.startswith("extends")
    ]
    (tmp_path / "my.toml").write_text(printed, "utf-8")
    scene = load_catalog(tmp_path / "my.toml").application("street-scene")
    assert scene.series == ("upscale", Parallel((("cars",), ("distance",))), "label")


def test_every_application_of_the_default_catalog_can_be_in_time() -> None:
    assert load_catalog().unmeetable() == {}
