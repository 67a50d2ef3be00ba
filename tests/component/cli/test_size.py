"""`esg size`: the cheapest cluster for given traffic, its files and its page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from esg.cli.evaluation import size
from esg.core.catalog.file import load_catalog
from esg.core.catalog.shipped import SHIPPED
from esg.emulator.sizing.mig_layouts import gpu_model, why_not
from tests.component.cli.conftest import Ran, Run
from tests.component.cli.test_pages import facts, plots
from tests.component.cli.test_refusals import assert_refused
from tests.support.emulated_command import document

CATALOG = """
[cluster]
nodes = 1
vcpus = 8
vgpus = 7
kind = "1g.10gb"

[kinds]
"3g.40gb" = {}
"4g.40gb" = {}

[functions.detect]
profile = "detect.toml"
cold_start_ms = 1
input_mb = 0.1
memory_mb = 100

[applications.scan]
chain = ["detect"]
slo_ms = 300

[applications.rescan.stages]
first = { function = "detect" }
second = { function = "detect", after = ["first"] }
"""

PROFILE = """
function = "detect"
[provenance]
kind = "made up"
[grid]
batch = [1, 2, 4]
vcpus = [1, 2, 4]
vgpus = [1, 2]
[model]
base_ms = 100
cpu_share = 0.4
parallel_fraction = 0.9
gpu_fixed_share = 0.3
relative_std = 0.01
[model.kinds."3g.40gb"]
speedup = 2.9
[model.kinds."4g.40gb"]
speedup = 3.5
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    (tmp_path / "detect.toml").write_text(PROFILE, "utf-8")
    path = tmp_path / "catalog.toml"
    path.write_text(CATALOG, "utf-8")
    return path


@pytest.fixture
def sized(esg: Run, catalog: Path) -> Run:
    """A search that takes little time."""

    def run(*arguments: object, few: bool = True) -> Ran:
        little = ("--requests", 80, "--seeds", 1, "--workers", 1) if few else ()
        return esg("size", "--catalog", catalog, *little, *arguments)

    return run


FAST = ("--rate", "80/s", "--slo-scale", 1.5, "--hit-rate", "95%", "--vcpus", "4-16")


def test_the_fleet_that_is_found_holds_with_other_seeds_and_can_be_made(
    sized: Run, esg: Run, catalog: Path, tmp_path: Path
) -> None:
    out, page = tmp_path / "fleet", tmp_path / "size.html"
    ran = sized(*FAST, "--out", out, "--html", page, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert (found["confirmed"], found["seeds"], found["other_seeds"]) == (True, [0], [1, 2])
    best, bound = found["found"], found["bound"]
    assert best["share_in_time"] >= 0.95
    assert best["usd_per_hour"] >= bound["usd_per_hour"]
    assert bound["usd_per_hour"] <= min(one["usd_per_hour"] for one in bound["by_layout"]) + 1e-6
    check_price(best, found["setting"])
    check_files(found, out, catalog, esg)
    check_page(found, page.read_text("utf-8"))


def check_price(fleet: dict[str, Any], setting: dict[str, Any]) -> None:
    """Seven slices of 0.67 dollars are a GPU."""
    assert setting["gpu_usd_per_hour"] == pytest.approx(7 * 0.67)
    gpus = sum(one["count"] for one in fleet["gpus"])
    assert gpus == fleet["nodes"]
    vcpus = fleet["nodes"] * fleet["vcpus_per_node"]
    assert fleet["usd_per_hour"] == pytest.approx(gpus * 7 * 0.67 + vcpus * 0.034)


def check_files(found: dict[str, Any], out: Path, catalog: Path, esg: Run) -> None:
    """The cluster, in the place of the catalog's own, runs as it did; the layouts are what NVIDIA
    allows."""
    cluster = (out / size.CATALOG_FILE).read_text("utf-8")
    own = CATALOG.index("[cluster]"), CATALOG.index("[kinds]")
    changed = catalog.with_name("sized.toml")
    changed.write_text(CATALOG[: own[0]] + cluster + CATALOG[own[1] :], "utf-8")
    best = found["found"]
    classes = load_catalog(changed).cluster.classes
    assert sum(one.count for one in classes) == best["nodes"]
    (run,) = document(
        esg, "--catalog", changed, "--policy", "apex", "--slo-scale", 1.5, "--rate", "80/s",
        "--requests", 80, "--seed", 0,
    )["results"]  # fmt: skip
    first = next(
        one
        for one in found["tried"]
        if (one["nodes"], one["vcpus_per_node"], one["gpus"])
        == (best["nodes"], best["vcpus_per_node"], best["gpus"])
    )
    assert run["slo_hit_rate"] == pytest.approx(first["share_in_time"])
    made = yaml.safe_load((out / size.MIG_FILE).read_text("utf-8"))
    assert made["version"] == "v1"
    for config in made["mig-configs"].values():
        for entry in config:
            assert set(entry) == {"devices", "mig-enabled", "mig-devices"}
            assert entry["mig-enabled"] is True
            kinds = [kind for kind, count in entry["mig-devices"].items() for _ in range(count)]
            assert why_not(gpu_model("a100-80gb"), kinds) is None


def check_page(found: dict[str, Any], page: str) -> None:
    costs, layouts = plots(page)
    shown = [x for trace in costs["data"] for x in trace["x"]]
    tried = [round(one["usd_per_hour"], 2) for one in found["tried"]]
    assert sorted(shown) == sorted([*tried, round(found["found"]["usd_per_hour"], 2)])
    (bars,) = layouts["data"]
    assert dict(zip(bars["y"], bars["x"], strict=True)) == {
        one["layout"]: round(one["usd_per_hour"], 2) for one in found["bound"]["by_layout"]
    }
    assert "80 requests/s" in facts(page)["Traffic"]
    assert "policy apex" in facts(page)["Conditions"]


def test_a_fleet_is_shown_as_a_table(sized: Run) -> None:
    ran = sized(*FAST, "--tasks", "phased", "--layouts", "7x1g.10gb", "--gpus-per-node", 2)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == (
        "The cheapest fleet with 95% in time: 80 requests/s (the rate 80/s), 80 requests per run; "
        "seed 0, confirmed with seeds 1 to 2."
    )
    assert "phased tasks; nodes of 2 x a100-80gb with 4 to 16 vCPUs" in lines[1]
    assert re.fullmatch(r"\d nodes? with \d+ vCPUs each, \d GPUs in all: .* USD per hour", lines[3])
    rows = [line.split()[0] for line in lines if "x 7x1g.10gb" in line]
    assert rows == [rows[0], "bound", "small", "confirmed"]


def test_recorded_requests_are_counted(sized: Run, tmp_path: Path) -> None:
    times = tmp_path / "times.csv"
    times.write_text("\n".join(f"{second / 20:.2f}" for second in range(200)) + "\n", "utf-8")
    wanted = ("--trace", times, "--format", "timestamps", "--mix", "scan=3,rescan=1")
    ran = sized(*wanted, "--slo-scale", 1.5, "--hit-rate", "90%", "--json")
    assert (ran.code, ran.err) == (0, "")
    setting = json.loads(ran.out)["setting"]
    assert setting["rate_per_s"] == pytest.approx(20, rel=0.1)
    assert sum(setting["mix"].values()) == 80
    assert setting["mix"]["scan"] > 1.5 * setting["mix"]["rescan"]


def test_an_interrupted_search_shows_what_has_held(
    sized: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find_size = size.find_size

    def interrupted(question: Any, executor: Any, progress: Any, found: Any) -> None:
        def until_one_holds(so_far: Any) -> None:
            progress(so_far)
            if any(one.hit_rate >= question.target for one in so_far.tried):
                raise KeyboardInterrupt

        find_size(question, executor, until_one_holds, found)

    monkeypatch.setattr(size, "find_size", interrupted)
    ran = sized(*FAST, "--html", tmp_path / "page.html", "--json")
    assert ran.code == 130
    assert ran.err == "interrupted: the cheapest so far is not confirmed\n"
    found = json.loads(ran.out)
    assert (found["confirmed"], found["found"]["holds"]) == (False, True)


REFUSED = {
    "": "nothing says when requests come; give --rate light, ...",
    "--rate 5/s --gpu a100": "--gpu: unknown GPU model 'a100'; ...",
    "--rate 5/s --gpu a30": "--gpu: the catalog has no profiles for slices of an a30 (4g.24gb, ...",
    "--rate 5/s --layouts 4g.40gb+4g.40gb": (
        "--layouts: 2x4g.40gb does not fit on an a100-80gb: of 4g.40gb it can have 1 at most"
    ),
    "--rate 5/s --layouts 5g": "--layouts: ...",
    "--rate 5/s --vcpus 8-4": "--vcpus: '8-4' is no number of vCPUs; ...",
    "--rate 5/s --policy esg,apex": "--policy: a fleet is sized for one policy; name one",
    "--rate 5/s --policy aquatope": "--policy: aquatope learns what is best on one cluster, ...",
    "--rate 5/s --setting strict-light": "--setting: unknown deadline 'strict-light'; ...",
    "--rate 5/s --setting strict --slo-scale 1": "--setting and --slo-scale are two ways ...",
    "--rate 5/s --hit-rate 101%": "--hit-rate: '101%' is no share; ...",
    "--rate 5/s --mix nothing=1": "...'nothing'...",
    "--rate 5/s --slo-scale 0.1": (
        "scan cannot be done within 10 ms on nodes with up to 64 vCPUs; the fastest is "
        "30 ms on 4g.40gb, 34 ms on 3g.40gb, 73 ms on 1g.10gb: give a longer deadline, ..."
    ),
}


@pytest.mark.parametrize(("line", "words"), REFUSED.items())
def test_size_refuses_in_one_line(sized: Run, line: str, words: str) -> None:
    assert_refused(sized(*line.split()), words)


def test_a_catalog_of_nameless_slices_is_refused(sized: Run, catalog: Path) -> None:
    nameless = CATALOG.replace('kind = "1g.10gb"', "slice_memory_mb = 1000")
    catalog.write_text(
        nameless.partition("[kinds]")[0] + "[functions" + nameless.partition("[functions")[2]
    )
    assert_refused(sized("--rate", "5/s"), "the catalog does not say what its slices are, ...")


def test_the_cluster_of_a_shipped_catalog_is_a_catalog_itself(tmp_path: Path, esg: Run) -> None:
    """Of those with slices of a GPU: little traffic, and few requests."""
    out = tmp_path / "fleet"
    few = ("--requests", 30, "--seeds", 1, "--workers", 1, "--layouts", "7x1g.10gb")
    for name in ("default", "measured-shapes"):
        ran = esg(
            "size", "--rate", "4/s", "--slo-scale", 1.5, "--hit-rate", "50%", *few,
            "--catalog", name, "--out", out,
        )  # fmt: skip
        assert (ran.code, ran.err) == (0, "")
        made = load_catalog(out / size.CATALOG_FILE)
        assert list(made.applications) == list(load_catalog(SHIPPED[name]).applications)
        assert {len(one.slices) for one in made.cluster.classes} == {7}
