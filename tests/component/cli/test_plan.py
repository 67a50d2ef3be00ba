import json
import re
from pathlib import Path
from typing import Any

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.search.frontier import Frontier
from tests.component.cli.conftest import Run

PLAN = ("plan", "image-classification")
THREE_STAGES = ("image-classification", "depth-recognition", "background-elimination")


def document(esg: Run, *arguments: object) -> dict[str, Any]:
    ran = esg("plan", *arguments, "--json")
    found: dict[str, Any] = json.loads(ran.out)
    assert (ran.code, ran.err) == (0 if found["feasible"] else 1, "")
    return found


def test_the_document_is_the_engines_answer(esg: Run) -> None:
    found = document(esg, "image-classification", "--slo-ms", 600, "--waited-ms", 74)
    application = load_catalog().application("image-classification")
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
