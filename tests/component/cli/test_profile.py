import json
from pathlib import Path

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.catalog.slice_kinds import USUAL
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.integration_catalog import write_catalog


def test_the_document_has_every_row_in_the_order_of_the_profile(esg: Run) -> None:
    profile = load_catalog().function("depth").profile
    document = json.loads(esg("profile", "show", "depth", "--json").out)
    rows = document["rows"]
    assert (document["function"], document["relative_std"]) == ("depth", profile.relative_std)
    assert document["provenance"] == profile.provenance
    assert [(r["batch"], r["vcpus"], r["vgpus"], r["kind"]) for r in rows] == list(profile.configs)
    assert [r["time_ms"] * 1000 for r in rows] == pytest.approx(profile.time_us.tolist())
    assert [r["slices_ms"] * 1000 for r in rows] == pytest.approx(profile.slices_us.tolist())
    assert {r["after_ms"] for r in rows} == {0}
    per_task, per_job = ([r[f"cost_usd_per_{of}"] * 1e12 for r in rows] for of in ("task", "job"))
    assert per_task == pytest.approx(profile.task_cost_pusd.tolist())
    assert per_job == pytest.approx(profile.job_cost_pusd.tolist())


def test_the_rows_can_be_narrowed(esg: Run) -> None:
    ran = esg("profile", "show", "depth", "--json", "--batch", 4, "--vgpus", 2, "--kind", "1g.10gb")
    rows = json.loads(ran.out)["rows"]
    assert {(row["batch"], row["vgpus"]) for row in rows} == {(4, 2)}
    assert [row["vcpus"] for row in rows] == [1, 2, 3, 4, 6, 8, 12, 16]
    ran = esg("profile", "show", "depth", "--kind", "9g.90gb")
    assert_refused(ran, "--kind: unknown kind of slices '9g.90gb'; ...")


def test_the_table_marks_the_fastest_and_the_cheapest(esg: Run) -> None:
    ran = esg("profile", "show", "depth", "--batch", 1)
    assert (ran.code, ran.err) == (0, "")
    (fastest,) = [line for line in ran.out.splitlines() if "fastest" in line]
    (cheapest,) = [line for line in ran.out.splitlines() if "cheapest" in line]
    assert fastest.split()[:3] == ["1", "16", "1"]
    assert cheapest.split()[:3] == ["1", "3", "1"]
    assert "Provenance:\n  kind: modelled\n" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_kinds_are_told_where_there_are_several(esg: Run) -> None:
    several = esg("profile", "show", "depth", "--batch", 1).out
    assert "kind" in several.splitlines()[3]
    assert "7g.80gb" in several
    one = esg("profile", "show", "depth", "--batch", 1, "--kind", "1g.10gb").out
    assert "kind" not in one.splitlines()[3]


def test_only_configs_that_no_other_one_beats_are_shown_unless_all_are_asked_for(
    esg: Run,
) -> None:
    profile = load_catalog().function("depth").profile.on_kinds([USUAL])
    figures = list(zip(profile.time_us.tolist(), profile.job_cost_pusd.tolist(), strict=True))
    best = {
        config
        for config, (time, cost) in zip(profile.configs, figures, strict=True)
        if not any(t <= time and c <= cost and (t, c) != (time, cost) for t, c in figures)
    }
    usual = ("profile", "show", "depth", "--kind", "1g.10gb")
    rows = configs(esg(*usual).out)
    assert set(rows) == {config[:3] for config in best}
    assert 2 <= len(rows) < len(profile.configs)
    assert configs(esg(*usual, "--all").out) == [config[:3] for config in profile.configs]


def test_a_table_says_what_of_the_time_is_spent_on_the_slices_and_after(
    tmp_path: Path, esg: Run
) -> None:
    """Nothing is said of what comes after if it is nothing anywhere."""
    catalog = write_catalog(tmp_path)
    shown = esg("profile", "show", "label", "--catalog", catalog, "--all")
    assert "after" not in shown.out
    (tmp_path / "label.csv").write_text(
        "batch,vcpus,vgpus,time_ms,slices_ms,after_ms\n1,1,1,40,30,4\n2,1,1,70,50,0\n"
    )
    shown = esg("profile", "show", "label", "--catalog", catalog, "--all")
    assert (shown.code, shown.err) == (0, "")
    cells = [line.split()[:6] for line in shown.out.splitlines()]
    assert ["1", "1", "1", "40.0", "30.0", "4.0"] in cells
    assert ["2", "1", "1", "70.0", "50.0", "0.0"] in cells
    found = json.loads(esg("profile", "show", "label", "--catalog", catalog, "--json").out)
    assert [(r["slices_ms"], r["after_ms"]) for r in found["rows"]] == [(30, 4), (50, 0)]


def test_a_handler_that_works_otherwise_than_modelled_is_told_of(esg: Run) -> None:
    told = " ".join(esg("profile", "show", "depth").out.split())
    assert "On real slices, tasks of depth are not as planned" in told
    assert json.loads(esg("profile", "show", "depth", "--json").out)["modelled_cpu"] == "within_job"


def configs(shown: str) -> list[tuple[int, ...]]:
    """Those of a table."""
    cells = [line.split()[:3] for line in shown.splitlines()]
    return [tuple(map(int, row)) for row in cells if len(row) == 3 and all(map(str.isdigit, row))]


def test_profile_alone_shows_its_help(esg: Run) -> None:
    ran = esg("profile")
    assert (ran.code, ran.err) == (0, "")
    assert "esg profile show segmentation" in ran.out
