"""What `esg emulate` gives to who studies policies: pairs, rows, and policies of one's own."""

import csv
from pathlib import Path
from statistics import fmean

import pytest

from tests.component.cli.conftest import Run
from tests.support.emulated_command import SHORT, document, result
from tests.support.examples import programs
from tests.support.paths import ROOT


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own, with the policy of CONTRIBUTING.md in it."""
    (program,) = programs(ROOT / "CONTRIBUTING.md")
    (tmp_path / "my_policies.py").write_text(program, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def test_a_difference_between_policies_is_paired_by_seed(esg: Run) -> None:
    found = document(esg, *SHORT, "--policy", "esg,apex", "--seeds", 3)
    first, second = found["results"]
    assert "to_first" not in first
    costs = [[run["cost_usd_per_1k_requests"] for run in one["runs"]] for one in (first, second)]
    ratios = [own / base - 1 for base, own in zip(*costs, strict=True)]
    assert second["to_first"]["cost_relative"] == pytest.approx(fmean(ratios))
    assert (
        0
        < second["to_first"]["cost_relative_margin"]
        < max(
            one["cost_usd_per_1k_requests_margin"] / one["cost_usd_per_1k_requests"]
            for one in (first, second)
        )
    )


def test_a_single_seed_has_differences_without_margins(esg: Run) -> None:
    _, second = document(esg, *SHORT, "--policy", "esg,apex")["results"]
    assert second["to_first"]["cost_relative"] is not None
    assert second["to_first"]["cost_relative_margin"] is None


def test_the_mean_of_equal_counts_is_a_count(esg: Run) -> None:
    (found,) = document(esg, *SHORT, "--seeds", 2)["results"]
    assert repr(found["requests"]) == "40"


@pytest.mark.parametrize("rate", ["light", "normal", "heavy"])
@pytest.mark.parametrize(
    ("deadline", "scale"), [("strict", 0.8), ("moderate", 1), ("relaxed", 1.2)]
)
def test_every_pair_of_deadline_and_rate_is_a_setting(
    esg: Run, deadline: str, scale: float, rate: str
) -> None:
    setting = document(esg, "--requests", 2, "--setting", f"{deadline}-{rate}")["setting"]
    assert (setting["slo_scale"], setting["rate"]) == (scale, rate)


@pytest.mark.parametrize("seeds", [1, 2])
def test_every_request_of_every_policy_and_seed_is_a_row(
    esg: Run, tmp_path: Path, seeds: int
) -> None:
    file = tmp_path / "requests.csv"
    policies = ["esg", "apex"] if seeds > 1 else ["esg"]
    found = document(esg, *SHORT, "--policy", ",".join(policies), "--seeds", seeds, "--csv", file)[
        "results"
    ]
    with file.open(encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 40 * len(policies) * seeds
    for policy, one in zip(policies, found, strict=True):
        own = [row for row in rows if row["policy"] == policy]
        assert {row["seed"] for row in own} == {str(seed) for seed in range(seeds)}
        assert fmean(int(row["in_time"]) for row in own) == one["slo_hit_rate"]
        assert 1000 * fmean(float(row["cost_usd"]) for row in own) == pytest.approx(
            one["cost_usd_per_1k_requests"]
        )
    assert all(
        int(row["latency_us"]) <= int(row["slo_us"]) for row in rows if row["in_time"] == "1"
    )


def test_a_request_that_is_refused_is_a_row_with_its_reason(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    assert esg("emulate", "--requests", 3, "--slo-scale", 0.1, "--csv", file).code == 0
    with file.open(encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["outcome"] for row in rows] == ["invalid"] * 3
    assert all("cannot be met" in row["why"] for row in rows)


def test_a_policy_of_ones_own_is_compared_recorded_and_replayed(esg: Run, own_folder: Path) -> None:
    own = "my_policies:Frugal"
    found = document(esg, *SHORT, "--policy", f"esg,{own}", "--seeds", 2)["results"]
    assert [one["policy"] for one in found] == ["esg", own]
    recorded = result(esg, *SHORT, "--policy", own, "--journal", own_folder / "run.journal")
    replayed = esg("replay", own_folder / "run.journal", "--json")
    assert replayed.code == 0
    assert recorded["digest"] in replayed.out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my_policies:Thrifty", "has no attribute 'Thrifty'"),
        ("my_policies:Mapping", "has no order, decide, place"),
        ("nowhere:Frugal", "No module named 'nowhere'; is its module in this folder"),
        ("frugal", "unknown policy 'frugal'"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_the_reason(
    esg: Run, own_folder: Path, name: str, words: str
) -> None:
    ran = esg("emulate", *SHORT, "--policy", name)
    assert ran.code == 2
    assert words in ran.err


def test_emulated_requests_come_as_loadgen_sends_them(esg: Run, load: Run, tmp_path: Path) -> None:
    how = ("--rate", "30/s", "--poisson", "--mix", "image-classification=3,depth-recognition=1")
    saved, rows = tmp_path / "arrivals.csv", tmp_path / "requests.csv"
    assert load(*how, *SHORT, "--seed", 5, "--save-arrivals", saved, "--dry-run").code == 0
    own = document(esg, *how, *SHORT, "--seed", 5)
    assert own["setting"]["pattern"] == "poisson"
    again = document(esg, "--arrivals", saved, "--seed", 5, "--csv", rows)
    assert own["results"][0]["digest"] == again["results"][0]["digest"]
    sent = [line.split(",") for line in saved.read_text("utf-8").splitlines()[1:]]
    with rows.open(encoding="utf-8") as opened:
        came = sorted((int(row["at_us"]), row["application"]) for row in csv.DictReader(opened))
    assert came == sorted((int(at_us), application) for at_us, application in sent)


def test_bursts_and_saved_arrivals_are_named_in_the_heading(
    esg: Run, load: Run, tmp_path: Path
) -> None:
    ran = esg("emulate", *SHORT, "--rate", "30/s", "--burst")
    assert ran.out.startswith("40 requests at the rate 30/s, in bursts; seed 0.\n")
    saved = tmp_path / "arrivals.csv"
    assert load(*SHORT, "--rate", "30/s", "--save-arrivals", saved, "--dry-run").code == 0
    assert esg("emulate", "--arrivals", saved).out.startswith(f"40 requests as in {saved}; seed 0.")
