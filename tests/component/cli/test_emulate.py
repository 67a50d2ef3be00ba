import json
import re
import signal
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from esg.console import training as console_training
from esg.console.conditions import conditions_text
from esg.console.training import TRAINING_SEED, trained_for
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.messages.codec import digest
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import POLICIES, learns
from esg.emulator.scenario import Scenario
from esg.emulator.training import train as training
from esg.emulator.worker_processes import usable_cores
from esg.errors import Rejected
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.emulated_command import APPLICATIONS, ESG, SHORT, document, result
from tests.support.emulated_command import counts as counts

# The document.


def test_the_document_has_all_that_was_promised(esg: Run) -> None:
    found = document(esg)
    provenance, content = list(found)[:3], list(found)[3:]
    assert provenance == ["ended", "command", "version"]
    assert content == ["setting", "seeds", "limits", "results"]
    setting = found["setting"]
    assert (setting["name"], setting["slo_scale"]) == ("relaxed-heavy", 1.2)
    assert (setting["rate"], setting["trace"]) == ("heavy", None)
    assert (setting["nodes"], setting["vcpus"], setting["vgpus"]) == (16, 16, 7)
    assert (setting["requests"], setting["duration_s"]) == (1000, None)
    assert found["seeds"] == [0]
    assert 0.1 < found["limits"]["cost_usd_per_1k_requests"] < 0.3
    assert 0.9 < found["limits"]["slo_hit_rate"] <= 1
    assert found["limits"]["possible_at_this_load"] == 1
    (esg_result,) = found["results"]
    assert esg_result["policy"] == "esg"
    assert esg_result["requests"] == 1000
    assert 0 <= esg_result["slo_hit_rate"] <= 1
    assert esg_result["cost_usd"] == pytest.approx(esg_result["cost_usd_per_1k_requests"])
    latency_ms = esg_result["latency_ms"]
    assert 0 < latency_ms["p50"] <= latency_ms["p90"] <= latency_ms["p99"]
    assert sorted(latency_ms["by_application"]) == APPLICATIONS
    assert sorted(esg_result["hit_rate_by_application"]) == APPLICATIONS
    for name in ("plan_miss_rate", "vgpu_utilisation"):
        assert 0 <= esg_result[name] <= 1
    for name in ("cold_starts", "local_transfers", "remote_transfers"):
        assert type(esg_result[name]) is int
    for name in ("mean_batch", "search_effort", "decision_ms", "virtual_s", "wall_s"):
        assert esg_result[name] > 0
    assert re.fullmatch("[0-9a-f]{16}", esg_result["digest"])


def test_emulation_with_the_same_seed_has_the_same_digest_and_another_seed_another(
    esg: Run,
) -> None:
    zero, again, one = (result(esg, "--seed", seed) for seed in (0, 0, 1))
    assert zero["digest"] == again["digest"] != one["digest"]
    assert {**zero, "wall_s": 0} == {**again, "wall_s": 0}


def test_esg_emulate_with_several_seeds_gives_means_with_margins(esg: Run) -> None:
    found = document(esg, "--setting", "strict-light", *SHORT, "--seeds", 3)
    assert found["seeds"] == [0, 1, 2]
    (mean,) = found["results"]
    runs = mean["runs"]
    assert [run["seed"] for run in runs] == [0, 1, 2]
    single = result(esg, "--setting", "strict-light", "--seed", 1)
    assert {**runs[1], "wall_s": 0} == {"seed": 1, **single, "wall_s": 0}
    for name in ("slo_hit_rate", "cost_usd_per_1k_requests"):
        values = [run[name] for run in runs]
        assert mean[name] == pytest.approx(sum(values) / 3)
        assert mean[f"{name}_margin"] > 0
    p99s = [run["latency_ms"]["p99"] for run in runs]
    assert mean["latency_ms"]["p99"] == pytest.approx(sum(p99s) / 3)
    assert mean["digest"] == digest("".join(run["digest"] for run in runs))


def test_policies_come_in_the_order_in_which_they_were_named(esg: Run) -> None:
    found = document(esg, *SHORT, "--policy", "orion, esg", "--workers", 1)
    assert [each["policy"] for each in found["results"]] == ["orion", "esg"]
    assert found["results"][1]["digest"] == result(esg)["digest"]
    assert "slo_hit_rate_margin" not in found["results"][0]


# Conditions.


@pytest.mark.parametrize(
    ("arguments", "name", "slo_scale", "rate"),
    [
        (("--setting", "strict-light"), "strict-light", 0.8, "light"),
        (("--setting", "strict-light", "--rate", "light"), "strict-light", 0.8, "light"),
        (("--setting", "strict-light", "--rate", "50/s"), None, 0.8, "50/s"),
        (("--setting", "strict-light", "--slo-scale", 1.1), None, 1.1, "light"),
        (("--slo-scale", 1.1), None, 1.1, "heavy"),
        (("--rate", "normal"), None, None, "normal"),
    ],
)
def test_a_setting_is_a_deadline_and_a_rate_and_both_can_be_overridden(
    esg: Run, arguments: tuple[object, ...], name: str, slo_scale: float, rate: str
) -> None:
    setting = document(esg, *SHORT, *arguments)["setting"]
    assert (setting["name"], setting["slo_scale"], setting["rate"]) == (name, slo_scale, rate)


def test_a_trace_says_when_requests_come(esg: Run, counts: Path) -> None:
    found = document(esg, "--trace", counts, "--duration", 100)
    assert found["setting"]["trace"] == str(counts)
    assert (found["setting"]["rate"], found["setting"]["slo_scale"]) == (None, None)
    (recorded,) = found["results"]
    assert 90 < recorded["requests"] < 110
    assert 90 < recorded["virtual_s"] < 103


def test_the_heading_counts_the_requests_that_a_short_trace_has(esg: Run, counts: Path) -> None:
    assert esg("emulate", "--trace", counts).out.startswith(f"180 requests as in {counts}; seed 0.")


def test_a_trace_comes_whole_unless_told_otherwise(esg: Run, tmp_path: Path) -> None:
    path = tmp_path / "minute.csv"
    path.write_text("calls\n1100\n")
    assert document(esg, "--trace", path)["results"][0]["requests"] == 1100


def test_trace_is_scaled_to_the_rate_that_is_given(esg: Run, counts: Path) -> None:
    for arguments in (("--rate", "20/s"), ("--setting", "strict-light", "--rate", "20/s")):
        found = document(esg, "--trace", counts, "--format", "counts", "--duration", 5, *arguments)
        assert 90 < found["results"][0]["requests"] < 110


def test_a_duration_ends_a_run(esg: Run) -> None:
    found = document(esg, "--rate", "100/s", "--duration", 0.5)
    assert found["results"][0]["requests"] == 49
    assert found["setting"]["requests"] is None


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("--no-batching", "batching", False),
        ("--no-gpu-sharing", "gpu_sharing", False),
        ("--no-locality", "locality", False),
        ("--no-prewarm", "prewarm", False),
        ("--cold-start", "warm_start", False),
        ("--warm-start", "warm_start", True),
        ("--noise 2", "noise", 2.0),
        ("--overhead none", "overhead", "none"),
        ("--search-steps-per-ms 100", "search_steps_per_ms", 100),
        ("--policy apex --without risk,holding", "without", ["risk", "holding"]),
        ("--remote-delay-ms 2", "remote_delay_ms", 2.0),
        ("--remote-mb-per-s 1000", "remote_mb_per_s", 1000.0),
        ("--engine astar", "engine", "astar"),
        ("--k 2", "k", 2),
        ("--engine astar --group-size 2", "group_size", 2),
        ("--nodes 5", "nodes", 5),
        ("--vcpus 8", "vcpus", 8),
        ("--vgpus 4", "vgpus", 4),
    ],
)
def test_options_of_esg_emulate_reach_the_run(
    esg: Run, option: str, name: str, value: object
) -> None:
    found = document(esg, "--requests", 5, *option.split())
    assert found["setting"][name] == value
    assert found["results"][0]["requests"] == 5


def test_measured_overhead_is_measured(esg: Run) -> None:
    assert result(esg, "--overhead", "measured")["decision_ms"] > 0


def test_nodes_are_the_catalogs_unless_told_otherwise(esg: Run, street: Path) -> None:
    found = document(esg, "--catalog", street, "--rate", "1/s", "--requests", 5)
    assert found["setting"]["nodes"] == 1
    assert set(found["results"][0]["hit_rate_by_application"]) <= {"street", "tangle"}


@pytest.mark.parametrize(
    ("words", "policies", "has_an_effect"),
    [
        ("K = 2", ["orion", "esg"], True),
        ("K = 2", ["orion", "apex"], False),
        ("engine astar", ["esg"], True),
        ("engine astar", ["apex"], False),
        ("groups of 1", ["esg"], True),
        ("groups of 1", ["orion"], False),
        ("no locality", ["infless", "apex"], True),
        ("no locality", ["infless", "fast-gshare"], False),
        ("without risk", ["apex"], True),
        ("without risk", ["esg"], False),
    ],
)
def test_the_heading_shows_what_has_an_effect(
    words: str, policies: list[str], has_an_effect: bool
) -> None:
    unusual = Scenario(
        nodes=1,
        vcpus=1,
        vgpus=1,
        k=2,
        engine="astar",
        group_size=1,
        locality=False,
        without=("risk",),
    )
    assert (words in conditions_text(unusual, policies)) is has_an_effect


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        ("--k 2 --group-size 2 --engine astar --policy esg,infless --no-locality", []),
        ("--k 5 --policy orion", ["--k changes nothing here: it is about policy esg"]),
        ("--group-size 1", ["--group-size changes nothing here: it is about engine astar"]),
        (
            "--no-locality --policy infless,fast-gshare",
            ["--no-locality changes nothing about infless and fast-gshare"],
        ),
        ("--search-steps-per-ms 5", []),
        ("--search-steps-per-ms 5 --overhead none --policy orion", []),
        (
            "--search-steps-per-ms 5 --overhead none",
            ["--search-steps-per-ms changes nothing here: overhead is none"],
        ),
    ],
)
def test_options_that_change_nothing_are_named(esg: Run, line: str, notes: list[str]) -> None:
    done = esg("emulate", *line.split(), "--requests", 5, "--workers", 1)
    assert done.code == 0
    assert done.err.splitlines() == [f"note: {note}" for note in notes]


def test_refused_emulation_prints_no_notes(esg: Run) -> None:
    for why in (("--catalog", "nowhere.json"), ("--nodes", 10000, "--vgpus", 1000)):
        assert_refused(esg("emulate", "--policy", "orion", "--k", 3, *why), "...")


def test_the_heading_has_only_what_has_an_effect() -> None:
    scenario = Scenario(
        nodes=1, vcpus=1, vgpus=1, group_size=1, overhead="none", search_steps_per_ms=5
    )
    text = conditions_text(scenario, ["esg"])
    assert "groups" not in text
    assert "nodes per ms" not in text
    assert "5 search steps per ms" in conditions_text(scenario, ["esg", "orion"])


class _Overheard(PolicySettings):
    """Settings that remember what was asked of them."""

    def __getattribute__(self, name: str) -> Any:
        asked.add(name)
        return super().__getattribute__(name)


asked: set[str] = set()


@pytest.mark.parametrize("name", POLICIES)
def test_the_table_says_exactly_which_settings_a_policy_asks_for(name: str) -> None:
    settings = _Overheard()
    asked.clear()
    try:
        POLICIES[name].maker(settings)(load_catalog())
    except Rejected:
        assert learns(name)  # first
    assert asked == POLICIES[name].uses


def test_a_slower_network_makes_answers_later(esg: Run) -> None:
    """Where tasks are placed anywhere, most inputs come from other nodes."""
    slow, fast = (
        result(esg, "--no-locality", "--remote-mb-per-s", rate)["latency_ms"]["p50"]
        for rate in (10, 1000)
    )
    assert slow > fast


@pytest.mark.parametrize("policy", ["apex", "esg", "orion"])
def test_emulation_without_locality_has_more_remote_transfers(esg: Run, policy: str) -> None:
    near = result(esg, "--policy", policy)
    anywhere = result(esg, "--policy", policy, "--no-locality")
    assert anywhere["remote_transfers"] > near["remote_transfers"]


def test_the_help_names_all_policies(esg: Run) -> None:
    for command in ("emulate", "what-if"):
        told = " ".join(esg(command, "--help").out.split()).replace("- ", "-")  # broken lines
        for name in POLICIES:
            assert re.search(rf"\b{name}\b", told), (command, name)


# Files.


def test_a_picture_of_the_run_loads_and_its_bars_do_not_overlap(esg: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert esg("emulate", *SHORT, "--trace-out", path).code == 0
    bars = [e for e in json.loads(path.read_text("utf-8"))["traceEvents"] if e["ph"] == "X"]
    ends: dict[tuple[int, int], int] = {}
    for bar in sorted(bars, key=lambda bar: bar["ts"]):
        where = (bar["pid"], bar["tid"])
        assert bar["ts"] >= ends.get(where, 0)
        ends[where] = bar["ts"] + bar["dur"]
    assert ends


def test_files_are_complete_or_not_there(esg: Run, tmp_path: Path) -> None:
    journal, picture = tmp_path / "run.journal", tmp_path / "run.json"
    arguments = ("emulate", *SHORT, "--journal", journal, "--trace-out", picture)
    assert_refused(esg(*arguments, "--engine", "dijkstra"), "--engine: unknown engine ...")
    assert_refused(esg(*arguments, "--rate", "x"), "unknown rate 'x'; ...")
    assert list(tmp_path.iterdir()) == []
    assert esg(*arguments).code == 0
    assert sorted(tmp_path.iterdir()) == [journal, picture]


FROM_A_SHELL = ("sh", "-c", 'exec "$@"', "sh")
IN_A_SCRIPTS_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


@pytest.mark.parametrize(
    ("begun", "number"),
    [
        (FROM_A_SHELL, signal.SIGINT),
        (FROM_A_SHELL, signal.SIGTERM),
        (FROM_A_SHELL, signal.SIGHUP),
        (IN_A_SCRIPTS_BACKGROUND, signal.SIGTERM),
    ],
)
def test_emulation_that_is_interrupted_says_nothing_and_leaves_no_file(
    begun: tuple[str, ...], number: int, tmp_path: Path
) -> None:
    path = tmp_path / "run.journal"
    process = subprocess.Popen(
        [*begun, ESG, "emulate", "--requests", str(10**9), "--journal", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        give_up = monotonic() + 60
        while not list(tmp_path.iterdir()) and monotonic() < give_up:
            pass
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (130, b"", b"")
    assert list(tmp_path.iterdir()) == []


# Learning.


def test_policies_that_learn_are_trained_on_what_they_will_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog, told = load_catalog(), []

    def train(
        seen: Catalog, *, seed: int, progress: training.Progress, workers: int
    ) -> dict[str, Any]:
        assert workers == usable_cores()
        for name in seen.applications:
            progress(name, 7, 7)
        told.append((seen, seed))
        return {"learnt": {}}

    monkeypatch.setattr(console_training, "trained_configs", train)
    assert trained_for(["esg", "orion"], catalog, shown=True) == {}
    assert trained_for(["esg", "aquatope"], catalog, shown=True) == {"learnt": {}}
    assert told == [(catalog, TRAINING_SEED)]


def test_aquatope_runs_with_what_it_learnt(esg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(seen: Catalog, **_: object) -> dict[str, Any]:
        return {
            name: {stage.name: stage.function.profile.minimum for stage in each.stages.values()}
            for name, each in seen.applications.items()
        }

    monkeypatch.setattr(console_training, "trained_configs", train)
    assert result(esg, "--policy", "aquatope", "--slo-scale", 2)["mean_batch"] == 1
