"""`esg plan` without an application."""

import json

import pytest

from esg.core.catalog.file import load_catalog
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused


def test_every_application_is_planned_at_three_deadlines(esg: Run) -> None:
    applications = load_catalog().applications
    ran = esg("plan", "--json")
    assert (ran.code, ran.err) == (0, "")
    plans = json.loads(ran.out)["plans"]
    assert [(plan["application"], plan["slo_scale"]) for plan in plans] == [
        (name, scale) for name in applications for scale in (0.8, 1.0, 1.2)
    ]
    for plan in plans:
        assert plan["feasible"]
        assert plan["time_ms"] <= plan["slo_ms"]
        assert len(plan["configs"]) == len(applications[plan["application"]].stages)
        assert plan["elapsed_us"] > 0
        assert plan["cost_usd_per_job"] > 0


def test_the_table_fits_into_80_columns_and_says_what_to_try_next(esg: Run) -> None:
    ran = esg("plan")
    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, lines)) <= 80
    assert "…" not in ran.out
    assert sum(" L " in line and "/" in line for line in lines) == 12
    assert lines[-1].startswith("Next, see why: esg plan image-classification")
    assert not any(line.endswith("late") for line in lines)


@pytest.mark.parametrize("option", ["--slo-ms", "--queue", "--waited-ms", "--k", "--group-size"])
def test_option_about_one_application_needs_the_name_of_one(esg: Run, option: str) -> None:
    words = f"{option} is about one application; name it: see esg apps"
    assert_refused(esg("plan", option, 1), words)
