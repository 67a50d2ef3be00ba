"""Costs have one unit for people, whichever command shows them: USD per thousand requests."""

import json
import re

import pytest

from tests.component.cli.conftest import Run

APPLICATION = "image-classification"


@pytest.mark.parametrize(
    "command",
    [
        "plan",
        f"plan {APPLICATION}",
        f"plan {APPLICATION} --engine astar",
        "profile show segmentation",
        "emulate --policy esg --requests 20",
        "emulate --policy esg --requests 20 --seeds 2",
    ],
)
def test_every_table_of_costs_is_per_thousand(esg: Run, command: str) -> None:
    ran = esg(*command.split())
    assert ran.code == 0
    assert re.search("USD .*\n.* per 1k |USD per .*\n.* 1k tasks +1k jobs", ran.out), ran.out
    assert "illion" not in ran.out
    assert "1M" not in ran.out


def test_a_plan_costs_the_same_in_a_table_in_a_sentence_and_as_json(esg: Run) -> None:
    plans = json.loads(esg("plan", APPLICATION, "--json").out)["plans"]
    shown = esg("plan", APPLICATION).out
    costs = [f"{1000 * plan['cost_usd_per_job']:.5f}" for plan in plans]
    assert all(cost in shown for cost in costs)
    cheapest = re.search(r"would cost\s+([\d.]+)\s+USD\s+per\s+1k", shown)
    assert cheapest is not None
    assert 0.5 * float(costs[0]) < float(cheapest[1]) < float(costs[0])
