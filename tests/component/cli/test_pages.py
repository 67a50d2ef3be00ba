"""The pages of `esg emulate` and `esg capacity`, and two saved results side by side."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

import pytest

from esg.cli.evaluation.pages.emulated import interval_text
from esg.core.catalog.file import load_catalog
from esg.version import __version__
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.counting_gateway import Gateway, serving
from tests.support.emulated_command import document

SEVERAL = ("--policy", "esg,apex", "--requests", 20, "--seeds", 2, "--workers", 1)
TIMES = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d"


def facts(page: str) -> dict[str, str]:
    return dict(re.findall(r"<tr><td>(\w+)</td><td>([^<]*)</td></tr>", page))


def rows(page: str) -> dict[str, list[str]]:
    """The cells of all rows by their first one."""
    found = re.findall(r"<tr[^>]*>((?:<td>[^<]*</td>)+)</tr>", page)
    cells = [re.findall(r"<td>([^<]*)</td>", one) for one in found]
    return {one[0]: one[1:] for one in reversed(cells)}


def plots(page: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)
    return [json.loads(text) for text in found]


def test_the_page_of_policies_has_differences_with_paired_margins(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["esg", "emulate", "--policy", "esg,apex"])
    file = tmp_path / "page.html"
    found = document(esg, *SEVERAL, "--html", file)
    page = file.read_text("utf-8")
    difference = found["results"][1]["to_first"]
    change, margin = difference["cost_relative"], difference["cost_relative_margin"]
    assert rows(page)["apex"][3] == f"{100 * change:+.1f}% ±{100 * margin:.1f}"
    hits, hits_margin = difference["slo_hit_rate"], difference["slo_hit_rate_margin"]
    assert rows(page)["apex"][1] == f"{100 * hits:+.1f} ±{100 * hits_margin:.1f}"
    told = facts(page)
    assert re.fullmatch(TIMES, told["Ended"])
    assert found["ended"] == told["Ended"]
    assert found["command"] == told["Command"] == "esg emulate --policy esg,apex"
    assert found["version"] == told["Version"] == __version__
    assert told["Policies"] == "esg, apex"
    assert told["Requests"] == "relaxed-heavy: 20 requests at the rate heavy; seeds 0 to 1."
    assert told["Conditions"].startswith("SLO 1.2 L, 16 nodes x 16 vCPUs x 7 vGPUs")
    assert rows(page)["image-classification"][0] == "631"  # its SLO


def test_the_plots_of_policies_are_their_figures_differences_and_latencies(
    esg: Run, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    found = document(esg, *SEVERAL, "--html", file)
    hits, costs, _, paired, *latencies = plots(file.read_text("utf-8"))
    first, second = (trace for trace in costs["data"] if trace["type"] == "bar")
    costs_usd = [one["cost_usd_per_1k_requests"] for one in found["results"]]
    assert [*first["y"], *second["y"]] == [pytest.approx(usd, abs=1e-4) for usd in costs_usd]
    for trace in hits["data"][:2]:
        above = trace["error_y"].get("array", [0])[0]
        assert trace["y"][0] + above <= 100
    (apex,) = paired["data"]
    change = found["results"][1]["to_first"]["cost_relative"]
    assert apex["y"] == [pytest.approx(100 * change, abs=1e-4)]
    assert len(latencies) == len(load_catalog().applications)
    for plot in latencies:
        for trace in plot["data"]:
            assert trace["x"] == sorted(trace["x"])
            assert trace["y"] == sorted(trace["y"])
            assert trace["y"][-1] == 100


def test_one_run_has_a_page_without_differences(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    document(esg, "--requests", 20, "--html", file)
    page = file.read_text("utf-8")
    assert "Differences from" not in page
    assert "One seed has no margins." in page
    assert "How many were answered within a time" in page


def test_impossible_deadlines_have_a_page_without_figures(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    two = ("--policy", "esg,apex", "--requests", 5, "--slo-scale", 0.01, "--workers", 1)
    document(esg, *two, "--html", file)
    assert rows(file.read_text("utf-8"))["apex"][:4] == ["-", "-", "-", "-"]


def test_intervals_of_hit_rates_stay_within_0_and_100_percent() -> None:
    assert interval_text(0.998, 0.004) == "99.8% (99.4 to 100.0)"
    assert interval_text(0.001, 0.004) == "0.1% (0.0 to 0.5)"


def test_a_grid_has_no_page(esg: Run, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("nodes = [1, 2]\n", "utf-8")
    ran = esg("emulate", "--grid", tmp_path / "grid.toml", "--html", tmp_path / "page.html")
    assert_refused(ran, "--html is about one point; leave --grid out, or take its --csv")


def test_the_page_of_a_capacity_has_every_rate_that_was_tried(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    small = ("--nodes", 1, "--requests", 40, "--seeds", 2, "--within", "50%", "--workers", 1)
    found = json.loads(esg("capacity", *small, "--html", file, "--json").out)
    page = file.read_text("utf-8")
    (only,) = found["results"]
    (plot,) = plots(page)
    assert plot["data"][0]["x"] == [round(one["rate_per_s"], 3) for one in only["tried"]]
    assert re.fullmatch(TIMES, facts(page)["Ended"])
    assert (
        facts(page)["Conditions"] == "SLOs of the applications, 1 node x 16 vCPUs x 7 vGPUs, "
        "warm start"
    )


@pytest.fixture
def saved(esg: Run, tmp_path: Path) -> tuple[Path, Path]:
    """The same requests and seeds under two policies, on nodes of two numbers."""
    files = tmp_path / "8.json", tmp_path / "16.json"
    for file, nodes in zip(files, (8, 16), strict=True):
        file.write_text(json.dumps(document(esg, *SEVERAL, "--nodes", nodes)), "utf-8")
    return files


def changed(lines: list[dict[str, Any]], part: str, figure: str) -> dict[str, Any]:
    (found,) = (one for one in lines if (one["part"], one["figure"]) == (part, figure))
    return found


def test_saved_results_are_compared_policy_by_policy_and_paired_by_seed(
    esg: Run, saved: tuple[Path, Path]
) -> None:
    ran = esg("compare", *saved, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert [one["policies"] for one in found["runs"]] == [["esg", "esg"], ["apex", "apex"]]
    line = changed(found["runs"][0]["lines"], "all", "USD per 1k")
    costs = [
        [run["cost_usd_per_1k_requests"] for run in json.loads(f.read_text())["results"][0]["runs"]]
        for f in saved
    ]
    by_seed = [second / first - 1 for first, second in zip(*costs, strict=True)]
    assert line["relative"] == pytest.approx(sum(by_seed) / 2)
    assert line["margin"] is not None
    application = changed(found["runs"][0]["lines"], "depth-recognition", "hit rate")
    assert application["difference"] == pytest.approx(application["second"] - application["first"])
    assert application["margin"] is None


def test_the_table_of_two_results_has_both_columns_and_what_was_different(
    esg: Run, saved: tuple[Path, Path]
) -> None:
    ran = esg("compare", *saved)
    assert (ran.code, ran.err) == (0, "")
    assert "Nodes: 8 nodes, each with 16 vCPUs and 7 vGPUs | 16 nodes, " in ran.out
    heads = [line.split() for line in ran.out.splitlines() if "8.json" in line and "±" not in line]
    assert ["esg", "8.json", "16.json", "difference"] in heads
    assert "SLOs:" not in ran.out  # they are the same


def test_the_page_of_two_results_shows_them_side_by_side(
    esg: Run, saved: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    esg("compare", *saved, "--html", file)
    page = file.read_text("utf-8")
    assert "<th>8.json</th><th>16.json</th><th>Difference</th>" in page
    different = re.findall(r'<tr class="best"><td>(\w+)</td>', page)
    assert "Nodes" in different
    assert "SLOs" not in different
    assert all(len(plot["data"]) == 2 for plot in plots(page))


def test_a_live_result_is_compared_with_an_emulated_one(
    esg: Run, load: Run, tmp_path: Path
) -> None:
    live, emulated = tmp_path / "live.json", tmp_path / "emulated.json"
    with serving(Gateway()) as gateway:
        ran = load("--rate", "500/s", "--requests", 20, "--gateway", gateway.address, "--json")
    live.write_text(ran.out, "utf-8")
    told = json.loads(ran.out)
    assert re.fullmatch(TIMES, told["ended"])
    assert told["gateway"] == gateway.address
    assert set(told["slo_ms"]) == set(told["applications"])
    emulated.write_text(json.dumps(document(esg, "--requests", 20)), "utf-8")
    ran = esg("compare", live, emulated, "--json")
    assert (ran.code, ran.err) == (0, "")
    (only,) = json.loads(ran.out)["runs"]
    assert only["policies"][1] == "esg"
    line = changed(only["lines"], "all", "hit rate")
    assert line["first"] == told["slo_hit_rate"] == 1.0
    file = tmp_path / "page.html"
    assert esg("compare", live, emulated, "--html", file).code == 0
    assert f"live, gateway {gateway.address}" in file.read_text("utf-8")


def test_hostile_names_in_a_saved_result_are_only_shown(
    esg: Run, saved: tuple[Path, Path], tmp_path: Path
) -> None:
    hostile = '"><script>alert(1)</script>'
    text = saved[0].read_text("utf-8").replace('"esg"', json.dumps(hostile))
    saved[0].write_text(text.replace("depth-recognition", "<b>depth"), "utf-8")
    file = tmp_path / "page.html"
    assert esg("compare", *saved, "--html", file).code == 0
    page = file.read_text("utf-8")
    assert hostile not in page
    assert "<b>depth" not in page
    assert escape(hostile) in page


def test_results_without_a_policy_in_common_are_refused(
    esg: Run, saved: tuple[Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document(esg, "--requests", 10, "--policy", "orion")), "utf-8")
    ran = esg("compare", saved[0], other)
    assert_refused(ran, "the files have no policy in common: ...has esg and apex, ...has orion")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"results": []}', "\xff", "[" * 100_000])
def test_a_file_that_is_no_result_is_refused(esg: Run, tmp_path: Path, content: str) -> None:
    file = tmp_path / "no.json"
    file.write_text(content, "latin-1")
    assert_refused(esg("compare", file, file), "...no.json: no results of esg emulate --json ...")


def test_a_missing_result_is_refused(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "gone.json"
    assert_refused(esg("compare", file, file), "...gone.json: cannot be read: No such file...")
