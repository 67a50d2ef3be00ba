"""`esg emulate --grid`, and what is left of many runs when somebody ends them."""

import csv
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from esg.cli.evaluation import study
from esg.emulator.sweep import RunOutcome, SweepRun, sweep
from esg.emulator.worker_processes import Interrupted
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.emulated_command import ESG, SHORT, document
from tests.support.waiting import wait_until

GRID = """
policy = ["esg", "apex"]
seeds = 2
requests = 30
nodes = [8, 16]
slo-scale = [0.8, 1.2]
"""


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = Path("grid.toml")
    file.write_text(GRID, "utf-8")
    return file


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def test_a_point_of_a_grid_is_what_its_options_give_alone(esg: Run, grid: Path) -> None:
    rows = grid.with_name("rows.csv")
    found = document(esg, "--grid", grid, "--csv", rows)
    assert [point["point"] for point in found["points"]] == [
        {"nodes": nodes, "slo-scale": scale} for nodes in (8, 16) for scale in (0.8, 1.2)
    ]
    alone = document(
        esg,
        *("--policy", "esg,apex", "--seeds", 2, "--requests", 30),
        *("--nodes", 8, "--slo-scale", 1.2),
    )
    second = found["points"][1]
    assert second["setting"] == alone["setting"]
    assert second["seeds"] == found["seeds"] == [0, 1]
    digests = [[one["digest"] for one in of["results"]] for of in (second, alone)]
    assert digests[0] == digests[1]
    assert second["results"][1]["to_first"] == alone["results"][1]["to_first"]

    written = rows_of(rows)
    assert len(written) == 4 * 2 * 2 * 30
    own = [
        row
        for row in written
        if (row["grid_nodes"], row["grid_slo_scale"], row["policy"]) == ("8", "1.2", "apex")
    ]
    in_time = sum(int(row["in_time"]) for row in own) / len(own)
    assert in_time == second["results"][1]["slo_hit_rate"]


def test_a_grid_is_one_table_with_a_row_for_each_point_and_policy(esg: Run, grid: Path) -> None:
    ran = esg("emulate", "--grid", grid)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("grid.toml: 4 points x 2 policies x 2 seeds.\n")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out
    heads = [line.split()[:3] for line in ran.out.splitlines() if line.split()[2:3] == ["apex"]]
    assert heads == [[n, s, "apex"] for n in ("8", "16") for s in ("0.8", "1.2")]


def test_flags_files_and_the_command_line_are_part_of_a_grid(esg: Run, grid: Path) -> None:
    Path("counts.csv").write_text("minute,count\n0,20\n", "utf-8")
    grid.write_text('cold-start = [true, false]\ntrace = "counts.csv"\n', "utf-8")
    points = document(esg, "--grid", grid, "--slo-scale", 2)["points"]
    assert [point["setting"]["warm_start"] for point in points] == [False, True]
    assert {point["setting"]["trace"] for point in points} == {"counts.csv"}
    assert {point["setting"]["slo_scale"] for point in points} == {2}


REFUSED = {
    "node = [1]": "grid.toml: unknown key 'node'; did you mean 'nodes'?",
    "slo_scale = 1": "grid.toml: unknown key 'slo_scale'; did you mean 'slo-scale'?",
    'json = "x"': "grid.toml: unknown key 'json'...",
    "nodes = [8, 0]": "grid.toml: nodes: --nodes is 0; it must be at least 1",
    "nodes = [8.5]": "grid.toml: nodes: '8.5' is not a valid int...",
    'nodes = ["many"]': "grid.toml: nodes: 'many' is not a valid int...",
    "nodes = [[8]]": "grid.toml: nodes: [8] is not a number or a text",
    "nodes = [true]": "grid.toml: nodes: True is not a number or a text",
    "nodes = []": "grid.toml: nodes: has no value; ...",
    "nodes = [8, 8]": "grid.toml: nodes: has a value twice; name it once",
    "poisson = 1": "grid.toml: poisson: 1 is not true or false",
    "seeds = [2, 3]": "grid.toml: seeds: has several values; ...",
    "warm-start = true\ncold-start = true": "grid.toml: cold-start: says the same as warm-start...",
    'rate = ["heavy", "hevy"]': "grid.toml: at rate = hevy: unknown rate 'hevy'; did you mean ...",
    "nodes = [8, 9000]\nvgpus = 9000": "grid.toml: at nodes = 9000: 9000 nodes x 9000 vGPUs are...",
    "requests = [5]\nduration = [5, 6]": "grid.toml: at duration = 5: --requests and --duration...",
    'policy = ["esg", "esgg"]': "grid.toml: --policy: unknown policy 'esgg'; did you mean ...",
    "nodes = [8": "grid.toml: is not TOML: ...",
    f"nodes = {list(range(1, 200))}\nvcpus = {list(range(1, 200))}": "grid.toml: 39601 points; ...",
}


@pytest.mark.parametrize(("text", "words"), REFUSED.items())
def test_a_grid_is_refused_with_its_file_and_key(
    esg: Run, grid: Path, text: str, words: str
) -> None:
    grid.write_text(text, "utf-8")
    assert_refused(esg("emulate", "--grid", grid), words)


def test_an_option_is_in_the_grid_or_on_the_command_line(esg: Run, grid: Path) -> None:
    refused = esg("emulate", "--grid", grid, "--nodes", 3)
    assert_refused(refused, "grid.toml: nodes: --nodes was given, too; give one of them")
    assert_refused(esg("emulate", "--grid", "none.toml"), "none.toml: No such file...")
    refused = esg("emulate", "--grid", grid, "--journal", "a")
    assert_refused(refused, "--journal and --trace-out are about one run; leave --grid out")


# Interrupts.


def interrupt_before(monkeypatch: pytest.MonkeyPatch, label: str, seed: int) -> None:
    """Have Ctrl-C come when all runs but this one have ended."""

    def interrupted(runs: Sequence[SweepRun], **options: Any) -> list[RunOutcome]:
        outcomes: Mapping[int, RunOutcome] = dict(enumerate(sweep(runs, **options)))
        raise Interrupted(
            {n: one for n, one in outcomes.items() if (one.label, one.seed) != (label, seed)}
        )

    monkeypatch.setattr(study, "sweep", interrupted)


def test_interrupted_seeds_keep_their_pairs(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.csv"
    arguments = ("emulate", *SHORT, "--policy", "esg,apex", "--seeds", 3, "--csv", rows)
    interrupt_before(monkeypatch, "apex", 1)
    ran = esg(*arguments, "--json")
    assert ran.code == 130
    assert ran.err == (
        "interrupted: 2 of 6 runs are missing; figures are of the seeds that all policies have "
        "finished\n"
    )
    found = json.loads(ran.out)
    assert found["seeds"] == [0, 2]
    assert [[run["seed"] for run in one["runs"]] for one in found["results"]] == [[0, 2], [0, 2]]
    there = {(row["policy"], row["seed"]) for row in rows_of(rows)}
    everything = {(policy, seed) for policy in ("esg", "apex") for seed in "012"}
    assert everything - there == {("apex", "1")}

    ran = esg(*arguments)
    assert ran.code == 130
    assert "seeds 0 and 2." in ran.out


def test_interrupt_before_the_first_seed_is_complete_says_so(
    esg: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_before(monkeypatch, "limits", 0)
    ran = esg("emulate", *SHORT, "--policy", "esg,apex")
    assert (ran.code, ran.out, ran.err) == (130, "", "interrupted: no seed is complete\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_shows_the_points_that_are_complete(grid: Path, number: int) -> None:
    grid.write_text(f"requests = [20, 21, {10**9}]\n", "utf-8")
    parts = grid.absolute().with_name("parts")
    parts.mkdir()
    process = subprocess.Popen(
        [ESG, "emulate", "--grid", grid, "--workers", "1", "--csv", "rows.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(parts)},
        text=True,
    )
    try:
        # One worker takes one run after the other: with the rows of the third point there are those
        # of the first
        wait_until(lambda: bool(list(parts.glob("*/4.csv"))))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert [line.split()[:2] for line in out.splitlines()[5:6]] == [["20", "esg"]]
    assert str(10**9) not in out
    assert "to first" not in out.partition("hit rate: ")[0]  # there is one policy only
    assert "of 3 runs are missing" in err
    assert len([row for row in rows_of(Path("rows.csv")) if row["grid_requests"] == "20"]) == 20
