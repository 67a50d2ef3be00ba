import csv
import json
from pathlib import Path

import pytest

from esg.catalog_file import load_catalog
from loadgen.arrivals import at_rate
from tests.cli.conftest import Run


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
    ran = load("--rate", "heavy", "--requests", 100, "--seed", 3, "--save-arrivals", path)
    assert (ran.code, ran.err) == (0, "")
    arrivals = at_rate("heavy", list(load_catalog().applications), seed=3)
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["at_us", "application"]
    assert rows == [[str(a.at_us), a.application] for a, _ in zip(arrivals, rows, strict=False)]
    assert len(rows) == 100
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_seed_gives_the_same_file(load: Run, tmp_path: Path) -> None:
    saved = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = tmp_path / name
        load("--rate", "heavy", "--requests", 20, "--seed", seed, "--save-arrivals", path)
        saved.append(path.read_bytes())
    assert saved[0] == saved[1] != saved[2]


def test_a_folder_is_not_overwritten(load: Run, tmp_path: Path) -> None:
    ran = load("--rate", "heavy", "--save-arrivals", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {tmp_path}: is not a regular file; name another one\n"
