import json
import re
from pathlib import Path
from typing import Any

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.catalog.shipped import SHIPPED
from esg.core.search.frontier import Frontier
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.kinds_catalog import write_catalog

PLAN = ("plan", "image-classification")
THREE_STAGES = ("image-classification", "depth-recognition", "background-elimination")


def document(esg: Run, *arguments: object) -> dict[str, Any]:
    ran = esg("plan", *arguments, "--json")
    found: dict[str, Any] = json.loads(ran.out)
    assert (ran.code, ran.err) == (0 if found["feasible"] else 1, "")
    return found


def test_the_document_is_the_engines_answer(esg: Run) -> None:
    found = document(esg, "image-classification", "--slo-ms", 600, "--waited-ms", 74)
    application = on_its_cluster(load_catalog()).application("image-classification")
    answer = Frontier(application).search("super-resolution", queue=1, left_us=526_000, k=5)
    best = answer.plans[0]
    assert found["application"] == "image-classification"
    assert (found["stage"], found["engine"]) == ("super-resolution", "frontier")
    assert (found["feasible"], found["budget_ms"]) == (True, 526.0)
    assert found["effort"] == answer.effort
    assert found["elapsed_us"] > 0
    assert found["build_ms"] > 0
    assert len(found["plans"]) == 5
    assert found["plans"][0] == {
        "configs": [
            {"function": step.stage, "stage": step.stage, **step.config._asdict()}
            for step in best.steps
        ],
        "time_ms": best.time_us / 1000,
        "cost_usd_per_job": best.job_cost_pusd / 1e12,
    }


@pytest.mark.parametrize("application", THREE_STAGES)
@pytest.mark.parametrize("arguments", [(), ("--queue", 8, "--k", 20), ("--slo-ms", 1200)])
def test_both_engines_find_plans_of_the_same_cost(
    esg: Run, application: str, arguments: tuple[object, ...]
) -> None:
    astar, frontier = (
        document(esg, application, *arguments, "--engine", name) for name in ("astar", "frontier")
    )
    assert astar["feasible"] == frontier["feasible"]
    assert [plan["cost_usd_per_job"] for plan in astar["plans"]] == [
        plan["cost_usd_per_job"] for plan in frontier["plans"]
    ]


def test_a_stage_may_be_named_by_its_function(esg: Run, street: Path) -> None:
    found = document(esg, "street", "--stage", "segmentation", "--catalog", street)
    assert found["stage"] == "left"
    assert [config["stage"] for config in found["plans"][0]["configs"]] == [
        "left",
        "classification",
    ]


def test_a_longer_queue_allows_larger_batches(esg: Run) -> None:
    alone = document(esg, "depth-recognition", "--slo-ms", 5000)
    crowd = document(esg, "depth-recognition", "--slo-ms", 5000, "--queue", 8)
    assert {plan["configs"][0]["batch"] for plan in alone["plans"]} == {1}
    assert crowd["plans"][0]["configs"][0]["batch"] > 1
    assert crowd["plans"][0]["cost_usd_per_job"] < alone["plans"][0]["cost_usd_per_job"]


def test_the_table_has_a_row_per_plan_and_says_why(esg: Run) -> None:
    ran = esg(*PLAN, "--slo-ms", 526, "--k", 3)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert len(re.findall(r"^\d+/\d+/\d+", ran.out, re.MULTILINE)) == 3
    assert "Why not cheaper: if time did not matter" in ran.out
    assert "Why not slower: the next cheaper plan" in ran.out


def words(text: str) -> str:
    """A paragraph without its line breaks."""
    return " ".join(text.split())


def test_the_slo_that_would_allow_the_next_cheaper_plan_is_exact(esg: Run) -> None:
    told = words(esg(*PLAN, "--slo-ms", 526).out)
    (slo_ms,) = map(float, re.findall(r"with an SLO of ([\d.]+) ms it would be chosen", told))
    now = document(esg, "image-classification", "--slo-ms", 526)["plans"][0]
    before = document(esg, "image-classification", "--slo-ms", f"{slo_ms - 0.001:.3f}")["plans"][0]
    then = document(esg, "image-classification", "--slo-ms", slo_ms)["plans"][0]
    assert before["cost_usd_per_job"] == now["cost_usd_per_job"] > then["cost_usd_per_job"]


def test_esg_plan_says_that_no_plan_is_cheaper_even_without_a_deadline(esg: Run) -> None:
    told = esg(*PLAN, "--slo-ms", 60_000).out
    assert "Why not cheaper: no plan is, even if time did not matter." in told
    assert "Why not slower" not in told


ONE_CORE = (
    "On real slices, tasks of {} are not as planned: modelled is one job after the other on all "
    'vCPUs (cpu = "within_job"), but the handler does each job on one core (cpu = "across_jobs").'
)


def test_handlers_that_work_otherwise_than_modelled_are_told_with_the_fastest_that_they_allow(
    esg: Run,
) -> None:
    told = words(esg(*PLAN, "--slo-ms", 421).out)
    assert ONE_CORE.format("super-resolution, segmentation and classification") in told
    assert "As they are handled, no config is in time from here: the fastest take 526 ms." in told
    assert document(esg, *PLAN[1:], "--slo-ms", 421)["fastest_handled_ms"] == 526
    told = words(esg(*PLAN, "--slo-ms", 421, "--stage", "classification").out)
    assert ONE_CORE.format("classification") in told
    assert "no config is in time from here" not in told


def test_a_strict_deadline_is_marked_where_handlers_could_not_keep_it(esg: Run) -> None:
    told = esg("plan").out
    strict, moderate, relaxed = (
        [line for line in told.splitlines() if line.startswith(f"{scale} L")]
        for scale in ("0.8", "1.0", "1.2")
    )
    assert len(strict) == len(load_catalog().applications)
    assert all(line.endswith("*") for line in strict)
    assert not any(line.endswith("*") for line in (*moderate, *relaxed))
    assert "*: in time as profiled, but on real slices" in words(told)
    found = json.loads(esg("plan", "--json").out)["plans"]
    assert all(
        (row["fastest_handled_ms"] > row["slo_ms"]) is (row["slo_scale"] < 1) for row in found
    )


def test_a_catalog_that_comes_with_esg_is_named_without_a_file(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ("depth-recognition", "--slo-ms", 1480)
    shapes = document(esg, *asked, "--catalog", "measured-shapes")
    assert shapes == {
        **document(esg, *asked, "--catalog", SHIPPED["measured-shapes"]),
        **{key: shapes[key] for key in ("elapsed_us", "build_ms")},
    }
    usual, default = document(esg, *asked), document(esg, *asked, "--catalog", "default")
    assert default["plans"] == usual["plans"] != shapes["plans"]


@pytest.fixture
def one_core(tmp_path: Path) -> Path:
    """A catalog whose profile says what its handler does: one core for a job."""
    (tmp_path / "edges.toml").write_text(
        'function = "edges"\n[provenance]\nkind = "made up"\n'
        "[grid]\nbatch = [1, 2]\nvcpus = [1, 4]\nvgpus = [1]\n"
        '[model]\nbase_ms = 100\ncpu_share = 0.6\ncpu = "across_jobs"\ngpu_fixed_share = 0.3\n'
    )
    path = tmp_path / "one-core.toml"
    path.write_text(
        'extends = "default"\n[functions.edges]\nprofile = "edges.toml"\ncold_start_ms = 1\n'
        'input_mb = 1\nmemory_mb = 1\nhandler = "shop.edges:Handler"\n'
        '[applications.drawing]\nchain = ["edges"]\nslo_ms = 80\n'
    )
    return path


def test_a_deadline_that_more_vcpus_cannot_help_is_told_with_that_reason(
    esg: Run, one_core: Path
) -> None:
    ran = esg("plan", "drawing", "--catalog", one_core)
    reason = 'urther vCPUs make no single job of edges faster (cpu = "across_jobs")'
    assert ran.code == 1
    assert f"100 ms with the fastest configs: f{reason}; give it a longer one" in ran.err
    assert f"F{reason}." in words(ran.out)
    assert "not as planned" not in words(ran.out)
    overview = esg("plan", "--catalog", one_core)
    (strict,) = [line for line in overview.out.splitlines() if line.endswith(" late")]
    assert strict.startswith("0.8 L")
    assert "late: even the fastest configs take longer" in words(overview.out)


def test_a_handler_of_several_cores_is_told_to_take_less_than_one_core_was_modelled_with(
    esg: Run, one_core: Path
) -> None:
    one_core.write_text(one_core.read_text().replace("input_mb", 'cpu = "within_job"\ninput_mb'))
    told = words(esg("plan", "drawing", "--slo-ms", 100, "--catalog", one_core).out)
    assert "but the handler does one job after the other on all vCPUs" in told
    assert "With several vCPUs a single job takes less" in told


@pytest.mark.parametrize("name", ["frontier", "astar"])
def test_slo_out_of_reach_is_told_with_the_smallest_slo_in_reach(esg: Run, name: str) -> None:
    ran = esg(*PLAN, "--slo-ms", 100, "--waited-ms", 20, "--engine", name)
    assert ran.code == 1
    (slo_ms,) = map(float, re.findall(r"of waiting is ([\d.]+) ms\.", words(ran.out)))
    asked = ("image-classification", "--waited-ms", 20, "--engine", name, "--slo-ms")
    assert document(esg, *asked, slo_ms)["feasible"]
    late = document(esg, *asked, f"{slo_ms - 0.001:.3f}")
    assert not late["feasible"]
    assert len(late["plans"]) == 1
    assert late["plans"][0]["time_ms"] > late["budget_ms"]


def test_a_deadline_that_passed_is_called_so(esg: Run) -> None:
    told = words(esg(*PLAN, "--slo-ms", 100, "--waited-ms", 150).out)
    assert "the deadline passed 50.0 ms ago" in told


def test_astar_says_that_it_plans_one_group(esg: Run) -> None:
    long = "expanded-image-classification"
    told = words(esg("plan", long, "--engine", "astar").out)
    assert "the function group deblur, super-resolution and background-removal here" in told
    assert "the function group" not in esg(*PLAN, "--engine", "astar").out
    found = document(esg, long, "--engine", "astar", "--group-size", 2)
    assert len(found["plans"][0]["configs"]) == 2
    assert found["budget_ms"] < 1892


def test_a_long_pipeline_fits_into_80_columns(esg: Run) -> None:
    ran = esg("plan", "expanded-image-classification")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out
    assert "3 = background-removal" in ran.out


@pytest.mark.parametrize("arguments", [("--k", 10**30), ("--queue", 10**30), ("--slo-ms", 1e-9)])
def test_extreme_numbers_are_answered(esg: Run, arguments: tuple[object, ...]) -> None:
    for name in ("frontier", "astar"):
        assert document(esg, "image-classification", "--engine", name, *arguments)["plans"]


@pytest.mark.parametrize("application", ["street", "tangle"])
@pytest.mark.parametrize("slo_ms", [10, 3000])
@pytest.mark.parametrize("name", ["frontier", "astar"])
def test_dags_are_planned_and_explained(
    esg: Run, street: Path, application: str, slo_ms: int, name: str
) -> None:
    ran = esg("plan", application, "--slo-ms", slo_ms, "--engine", name, "--catalog", street)
    assert (ran.code, ran.err) == (0 if slo_ms == 3000 else 1, "")


# Kinds of slices


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return write_catalog(tmp_path, "1g.10gb", "3g.40gb")


def test_plans_are_for_the_slices_of_the_cluster(esg: Run, mixed: Path) -> None:
    (hurried,) = document(esg, "either", "--slo-ms", 900, "--catalog", mixed)["plans"]
    assert [config["kind"] for config in hurried["configs"]] == ["3g.40gb"]
    best, *_ = document(esg, "either", "--slo-ms", 2000, "--catalog", mixed)["plans"]
    assert [config["kind"] for config in best["configs"]] == [""]


def test_another_layout_has_other_plans(esg: Run, mixed: Path) -> None:
    layout = ("--layout", "2", "--catalog", mixed)
    assert not document(esg, "either", "--slo-ms", 900, *layout)["feasible"]
    assert_refused(
        esg("plan", "wide", *layout),
        "wide: no profile says what wide takes here: there are only slices of 1g.10gb; ...",
    )
    assert_refused(
        esg("plan", "--layout", "9g.90gb", "--catalog", mixed),
        "--layout: '9g.90gb': unknown kind of slices '9g.90gb'; did you mean ...",
    )


def test_what_is_not_planned_on_a_kind_is_said_with_what_to_do(esg: Run, mixed: Path) -> None:
    ran = esg("plan", "--catalog", mixed, "--layout", "2")
    assert ran.code == 0
    words = " ".join(ran.out.split())
    assert "wide: no profile says what wide takes here: there are only slices of 1g.10gb" in words
    assert (
        "not planned: wide on 1g.10gb: no profile; measure with: esg profile --slices mig "
        "--functions wide."
    ) in words
    ran = esg("plan", "either", "--slo-ms", 900, "--catalog", mixed)
    words = " ".join(ran.out.split())
    assert "1/1/1x3g.40gb" in words
    assert "Nodes have the slices 1g.10gb+3g.40gb." in words
