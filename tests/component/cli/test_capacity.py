"""`esg capacity`: the highest rate at which enough requests are in time."""

import json
from typing import Any

import pytest

from esg.cli.evaluation import capacity
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.emulated_command import document

SMALL = ("--nodes", 1, "--requests", 60, "--seeds", 2, "--within", "20%", "--workers", 1)


def test_the_rate_that_is_found_holds_and_the_one_above_does_not(esg: Run) -> None:
    wanted = (*SMALL, "--setting", "relaxed", "--hit-rate", "90%")
    ran = esg("capacity", "--policy", "esg,apex", *wanted, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert (found["hit_rate"], found["within"], found["seeds"]) == (0.9, 0.2, [0, 1])
    assert found["setting"]["slo_scale"] == 1.2
    assert [one["policy"] for one in found["results"]] == ["esg", "apex"]
    first = found["results"][0]
    same = ("--nodes", 1, "--requests", 60, "--seeds", 2, "--slo-scale", 1.2)
    (alone,) = document(esg, *same, "--rate", f"{first['rate_per_s']:g}/s")["results"]
    for name in ("slo_hit_rate", "slo_hit_rate_margin", "cost_usd_per_1k_requests"):
        assert first[name] == alone[name]
    (above,) = document(esg, *same, "--rate", f"{first['fails_at_per_s']:g}/s")["results"]
    assert first["slo_hit_rate"] >= 0.9 > above["slo_hit_rate"]
    assert first["fails_with_slo_hit_rate"] == above["slo_hit_rate"]


def test_capacity_is_shown_as_a_table(esg: Run) -> None:
    ran = esg("capacity", *SMALL, "--slo-scale", 1.2, "--hit-rate", 0.9)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        "The highest rate with 90% in time, within 20%: 60 requests per run; seeds 0 to 1.\n"
    )
    assert max(map(len, ran.out.splitlines()[1:])) <= 80
    assert [line.split()[0] for line in ran.out.splitlines() if "±0" in line] == ["esg"]


def test_impossible_deadlines_have_no_capacity(esg: Run) -> None:
    few = ("--requests", 2, "--seeds", 1, "--workers", 1)
    ran = esg("capacity", *few, "--slo-scale", 0.1, "--json")
    (found,) = json.loads(ran.out)["results"]
    assert (found["rate_per_s"], found["slo_hit_rate"], found["fails_at_per_s"]) == (
        None,
        None,
        0.1,
    )


def test_an_interrupted_search_shows_what_has_held(
    esg: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(question: Any, executor: Any, progress: Any) -> None:
        def two_rounds(found: Any) -> None:
            progress(found)
            if len(found["esg"].runs) == 2:
                raise KeyboardInterrupt

        find_capacity(question, executor, two_rounds)

    find_capacity = capacity.find_capacity
    monkeypatch.setattr(capacity, "find_capacity", interrupted)
    ran = esg("capacity", "--requests", 10, "--seeds", 1, "--workers", 1, "--json")
    assert ran.code == 130
    assert ran.err == "interrupted: rates are the highest that have held so far\n"
    (found,) = json.loads(ran.out)["results"]
    assert (found["rate_per_s"], found["fails_at_per_s"]) == (16, None)


REFUSED = {
    "--hit-rate 99": "--hit-rate: '99' is no share; give one up to 100%, as in 99% or 0.99",
    "--hit-rate 0%": "--hit-rate: '0%' is no share; ...",
    "--within x": "--within: 'x' is no share; ...",
    "--setting strict-light": "--setting: unknown deadline 'strict-light'; did you mean 'strict'?",
    "--setting strict --slo-scale 1": "--setting and --slo-scale are two ways to say it; ...",
    "--policy esgg": "--policy: unknown policy 'esgg'; ...",
    "--seed 1 --seeds 2": "--seed and --seeds are two ways to choose; ...",
    "--requests 5 --duration 5": "--requests and --duration are two ways to stop; ...",
    "--poisson --burst": "--poisson and --burst are two ways to come; ...",
    "--mix nothing=1": "...'nothing'...",
    "--nodes 9000 --vgpus 9000": "9000 nodes x 9000 vGPUs ...",
    "--vcpus 1 --vgpus 1 --no-gpu-sharing --rate 3/s": "no such option: --rate...",
}


@pytest.mark.parametrize(("line", "words"), REFUSED.items())
def test_capacity_refuses_in_one_line(esg: Run, line: str, words: str) -> None:
    assert_refused(esg("capacity", *line.split()), words)
