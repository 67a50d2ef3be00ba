import json
import re
from pathlib import Path

import pytest

from tests.component.cli.conftest import Run
from tests.support.sealed import plain, sealed


@pytest.fixture
def journal(tmp_path: Path, esg: Run) -> Path:
    """Every stage takes 60 ms more than profiled."""
    path = tmp_path / "run.journal"
    slow = ("--stage-delay-ms", 60, "--slo-scale", 2, "--rate", "light", "--requests", 60)
    ran = esg("emulate", "--journal", path, "--nodes", 2, "--follow-profiles", *slow)
    assert (ran.code, ran.err) == (0, "")
    return path


def test_drift_is_what_tasks_took_beside_their_profile(journal: Path, esg: Run) -> None:
    ran = esg("profile", "drift", "--journal", journal, "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = {(one["function"], one["batch"]): one for one in json.loads(ran.out)["profiles"]}
    alone = rows["super-resolution", 1]
    assert alone["profiled_ms"] == 86
    assert alone["measured"] > 1.4
    assert alone["planned"] == pytest.approx(alone["measured"], rel=0.1)
    assert alone["measured_ms"] == pytest.approx(86 * alone["measured"])
    assert alone["tasks"] >= 8


def test_drift_fits_the_screen(journal: Path, esg: Run) -> None:
    ran = esg("profile", "drift", "--journal", journal)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "super-resolution" in ran.out


def test_drift_names_the_functions_whose_handlers_work_otherwise_than_modelled(
    journal: Path, esg: Run
) -> None:
    told = " ".join(esg("profile", "drift", "--journal", journal).out.split())
    rows = json.loads(esg("profile", "drift", "--journal", journal, "--json").out)["profiles"]
    (note,) = re.findall(r"On real slices, tasks of ([\w ,-]+) are not as planned", told)
    assert set(re.split(", | and ", note)) == {one["function"] for one in rows}


def test_figures_of_few_tasks_are_marked_as_such(tmp_path: Path, journal: Path, esg: Run) -> None:
    many, few = journal, tmp_path / "few.journal"
    short = ("--nodes", 2, "--follow-profiles", "--requests", 2, "--rate", "light")
    assert esg("emulate", "--journal", few, *short).code == 0
    shown = esg("profile", "drift", "--journal", few).out
    assert "*: fewer than 8 tasks. Their median says little yet" in shown
    rows = json.loads(esg("profile", "drift", "--journal", few, "--json").out)["profiles"]
    assert all(one["few_tasks"] for one in rows)
    for one in rows:
        assert f" {one['tasks']}* " in shown
    enough = json.loads(esg("profile", "drift", "--journal", many, "--json").out)["profiles"]
    assert [one["few_tasks"] for one in enough] == [one["tasks"] < 8 for one in enough]
    assert not all(one["few_tasks"] for one in enough)


def test_a_mesh_that_does_not_follow_has_nothing_to_tell(tmp_path: Path, esg: Run) -> None:
    path = tmp_path / "run.journal"
    esg("emulate", "--journal", path, "--nodes", 2, "--requests", 10)
    assert "Nothing was measured yet" in esg("profile", "drift", "--journal", path).out


def test_a_journal_that_is_not_what_it_says_is_one_line(journal: Path, esg: Run) -> None:
    lines = plain(journal)
    lines[30] = json.dumps(json.loads(lines[30]) | {"orders": "f" * 16})
    journal.write_bytes(sealed(lines))
    ran = esg("profile", "drift", "--journal", journal)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: the replay is not identical: entry 30 at ")
    assert ran.err.count("\n") == 1
