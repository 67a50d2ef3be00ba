import csv
import json
from pathlib import Path

import pytest

from esg.core.catalog.file import load_catalog
from esg.workload.mix import Mix
from esg.workload.rates import steady
from tests.component.cli.conftest import Run


def test_a_dry_run_sums_the_arrivals_up(load: Run) -> None:
    ran = load("--rate", "heavy", "--requests", 500, "--seed", 7, "--dry-run", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert (document["rate"], document["seed"], document["count"]) == ("heavy", 7, 500)
    assert document["mean_interval_ms"] == pytest.approx(document["span_ms"] / 500)
    assert 10 <= document["mean_interval_ms"] <= 16.8
    assert list(document["applications"]) == list(load_catalog().applications)
    assert sum(document["applications"].values()) == 500
    assert document["saved_to"] is None


def test_the_table_says_the_same(load: Run) -> None:
    ran = load("--rate", "light", "--requests", 10, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("light, seed 0: 10 requests in ")
    assert "depth-recognition" in ran.out


def test_a_duration_ends_the_run(load: Run) -> None:
    ran = load("--rate", "normal", "--duration", 2, "--dry-run", "--json")
    document = json.loads(ran.out)
    assert document["span_ms"] <= 2000
    assert 2000 / 33.6 - 1 <= document["count"] <= 2000 / 20


def test_a_run_may_be_too_short_for_any_request(load: Run) -> None:
    asked = ("--rate", "light", "--duration", 0.001, "--dry-run")
    document = json.loads(load(*asked, "--json").out)
    assert (document["count"], document["mean_interval_ms"]) == (0, None)
    assert load(*asked).code == 0


def test_arrivals_are_saved_in_full_and_leave_nothing_else(load: Run, tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text("what was there before")
    asked = ("--rate", "heavy", "--requests", 100, "--seed", 3, "--dry-run")
    ran = load(*asked, "--save-arrivals", path)
    assert (ran.code, ran.err) == (0, "")
    arrivals = steady("heavy", Mix.uniform(list(load_catalog().applications)), seed=3)
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["at_us", "application"]
    assert rows == [[str(a.at_us), a.application] for a, _ in zip(arrivals, rows, strict=False)]
    assert len(rows) == 100
    assert list(tmp_path.iterdir()) == [path]


def test_loadgen_saves_the_same_arrivals_for_the_same_seed(load: Run, tmp_path: Path) -> None:
    saved = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = tmp_path / name
        asked = ("--rate", "heavy", "--requests", 20, "--seed", seed, "--dry-run")
        load(*asked, "--save-arrivals", path)
        saved.append(path.read_bytes())
    assert saved[0] == saved[1] != saved[2]


def test_a_folder_is_not_overwritten(load: Run, tmp_path: Path) -> None:
    ran = load("--rate", "heavy", "--dry-run", "--save-arrivals", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {tmp_path}: is not a regular file; name another one\n"


@pytest.mark.parametrize("option", ["--save-arrivals", "--csv", "--html"])
def test_the_trace_that_is_read_is_not_overwritten(load: Run, tmp_path: Path, option: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("count\n5\n3\n")
    ran = load("--trace", trace, "--dry-run", option, trace)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: --trace and {option} are the same file, {trace}; ")
    assert trace.read_text() == "count\n5\n3\n"


def test_saved_arrivals_are_replayed_to_the_last_row(load: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    load("--rate", "30/s", "--poisson", "--requests", 50, "--dry-run", "--save-arrivals", first)
    ran = load("--arrivals", first, "--dry-run", "--save-arrivals", second)
    assert ran.code == 0
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().count(b"\n") == 51


def test_a_trace_is_shaped_as_the_options_say(load: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("HashFunction,1,2,3\r\nf,10,20,30\r\ng,0,2,0")
    asked = ("--trace", trace, "--format", "azure2019", "--dry-run", "--json")
    assert json.loads(load(*asked).out)["count"] == 62
    assert json.loads(load(*asked, "--start-minute", 1, "--duration", 60).out)["count"] == 22
    assert json.loads(load(*asked, "--scale", 2, "--in-minute", "even").out)["count"] == 124
    scaled = json.loads(load(*asked, "--rate", "light").out)
    assert scaled["count"] == pytest.approx(180 * 1000 / 53.6, rel=0.01)
    mixed = json.loads(load(*asked, "--mix", "depth-recognition=1").out)
    assert mixed["applications"]["depth-recognition"] == 62
    mapped = json.loads(load(*asked, "--by-function").out)
    assert sorted(mapped["applications"].values())[-1] in (60, 62)


def test_a_dry_run_can_be_emulated(load: Run) -> None:
    asked = ("--rate", "light", "--requests", 30, "--dry-run", "--emulate")
    emulated = json.loads(load(*asked, "--json").out)["emulated"]
    assert (emulated["requests"], emulated["failed"]) == (30, 0)
    assert emulated["latency_ms"]["p50"] > 100
    assert "Emulated, on the catalog's cluster" in load(*asked).out
