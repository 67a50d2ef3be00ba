import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import cli.study
from cli.conditions import NO_LOCALITY, SEARCHES, conditions_text
from cli.training import TRAINING_SEED, trained_for
from emulator import training
from emulator.scenario import Scenario
from esg.catalog import Catalog
from esg.catalog_file import load_catalog
from esg.codec import digest
from esg.errors import Rejected
from esg.policies import POLICIES, PolicySettings
from tests.cli.conftest import Run
from tests.cli.test_refusals import assert_refused

ESG = Path(sys.executable).with_name("esg")
SHORT = ("--requests", 40)
APPLICATIONS = sorted(load_catalog().applications)


def document(esg: Run, *arguments: object) -> dict[str, Any]:
    ran = esg("emulate", *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


def result(esg: Run, *arguments: object) -> dict[str, Any]:
    (found,) = document(esg, *SHORT, *arguments)["results"]
    return dict(found)


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    """A trace with one call per second."""
    path = tmp_path / "counts.csv"
    path.write_text("minute,count\n0,60\n1,60\n2,60\n", "utf-8")
    return path


# The document.


def test_the_document_has_all_that_was_promised(esg: Run) -> None:
    found = document(esg)
    assert list(found) == ["setting", "seeds", "limits", "results"]
    setting = found["setting"]
    assert (setting["name"], setting["slo_scale"]) == ("relaxed-heavy", 1.2)
    assert (setting["rate"], setting["trace"]) == ("heavy", None)
    assert (setting["nodes"], setting["vcpus"], setting["vgpus"]) == (16, 16, 7)
    assert (setting["requests"], setting["duration_s"]) == (1000, None)
    assert found["seeds"] == [0]
    assert 0.1 < found["limits"]["cost_usd_per_1k_requests"] < 0.3
    assert 0.9 < found["limits"]["slo_hit_rate"] <= 1
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


def test_the_same_seed_gives_the_same_digest_and_another_seed_another(esg: Run) -> None:
    zero, again, one = (result(esg, "--seed", seed) for seed in (0, 0, 1))
    assert zero["digest"] == again["digest"] != one["digest"]
    assert {**zero, "wall_s": 0} == {**again, "wall_s": 0}


def test_several_seeds_give_means_with_margins(esg: Run) -> None:
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


def test_with_a_rate_a_trace_is_scaled_to_it(esg: Run, counts: Path) -> None:
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
        ("--nodes-per-ms 100", "nodes_per_ms", 100),
        ("--policy apex --without risk,holding", "without", "risk,holding"),
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
def test_every_option_reaches_the_run(esg: Run, option: str, name: str, value: object) -> None:
    found = document(esg, "--requests", 5, *option.split())
    assert found["setting"][name] == value
    assert found["results"][0]["requests"] == 5


def test_measured_overhead_is_measured(esg: Run) -> None:
    assert result(esg, "--overhead", "measured")["decision_ms"] > 0


def test_nodes_are_the_catalogs_unless_told_otherwise(esg: Run, street: Path) -> None:
    found = document(esg, "--catalog", street, "--rate", "1/s", "--requests", 5)
    assert found["setting"]["nodes"] == 1
    assert set(found["results"][0]["hit_rate_by_application"]) <= {"street", "tangle"}


def test_what_is_unusual_is_in_the_heading(esg: Run) -> None:
    unusual = "--engine astar --k 1 --group-size 2 --nodes-per-ms 50 --remote-delay-ms 1"
    told = " ".join(esg("emulate", *SHORT, *unusual.split()).out.split())
    for words in ("engine astar", "K = 1", "groups of 2", "50 nodes per ms", "inputs 1 ms"):
        assert words in told
    assert (
        "strict-light"
        not in esg("emulate", *SHORT, "--setting=strict-light", "--k=1", "--rate=9/s").out
    )


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
        nodes=1, vcpus=1, vgpus=1, k=2, engine="astar", group_size=1, locality=False, without="risk"
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
        ("--nodes-per-ms 5", []),
        ("--nodes-per-ms 5 --overhead none --policy orion", []),
        (
            "--nodes-per-ms 5 --overhead none",
            ["--nodes-per-ms changes nothing here: overhead is none"],
        ),
    ],
)
def test_options_that_change_nothing_are_named(esg: Run, line: str, notes: list[str]) -> None:
    done = esg("emulate", *line.split(), "--requests", 5, "--workers", 1)
    assert done.code == 0
    assert done.err.splitlines() == [f"note: {note}" for note in notes]


def test_what_is_refused_is_refused_without_notes(esg: Run) -> None:
    for why in (("--catalog", "nowhere.json"), ("--nodes", 10000, "--vgpus", 1000)):
        assert_refused(esg("emulate", "--policy", "orion", "--k", 3, *why), "...")


def test_the_heading_has_only_what_has_an_effect() -> None:
    scenario = Scenario(nodes=1, vcpus=1, vgpus=1, group_size=1, overhead="none", nodes_per_ms=5)
    text = conditions_text(scenario, ["esg"])
    assert "groups" not in text
    assert "nodes per ms" not in text
    assert "5 nodes per ms" in conditions_text(scenario, ["esg", "orion"])


class _Overheard(PolicySettings):
    """Settings that remember what was asked of them."""

    def __getattribute__(self, name: str) -> Any:
        asked.add(name)
        return super().__getattribute__(name)


asked: set[str] = set()


@pytest.mark.parametrize("name", POLICIES)
def test_options_are_without_effect_exactly_where_policies_do_not_ask_for_them(name: str) -> None:
    settings = _Overheard()
    asked.clear()
    try:
        POLICIES[name](load_catalog(), settings)
    except Rejected:
        assert name == "aquatope"  # it has to learn first
    assert ("k" in asked) == ("engines" in asked) == (name == SEARCHES)
    assert ("locality" in asked) == (name not in NO_LOCALITY)
    assert ("without" in asked) == (name == "apex")


def test_a_slower_network_makes_answers_later(esg: Run) -> None:
    """Where tasks are placed anywhere, most inputs come from other nodes."""
    slow, fast = (
        result(esg, "--no-locality", "--remote-mb-per-s", rate)["latency_ms"]["p50"]
        for rate in (10, 1000)
    )
    assert slow > fast


@pytest.mark.parametrize("policy", ["apex", "esg", "orion"])
def test_without_locality_data_travels(esg: Run, policy: str) -> None:
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_it_hears_nothing_and_finds_no_file(number: int, tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    process = subprocess.Popen(
        [ESG, "emulate", "--requests", str(10**9), "--journal", path],
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


# For people.


def test_the_table_of_one_run_fits_into_80_columns(esg: Run) -> None:
    ran = esg("emulate", *SHORT)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out
    assert ran.out.startswith("relaxed-heavy: 40 requests at the rate heavy; seed 0.\n")
    assert re.search(r"^esg +100\.0% ", ran.out, re.MULTILINE)
    assert re.search(r"^limits +100\.0% +0\.\d{4} +-\d+% *$", ran.out, re.MULTILINE)
    assert "±" not in ran.out


def test_requests_that_nobody_can_serve_are_not_passed_over_in_silence(esg: Run) -> None:
    ran = esg("emulate", *SHORT, "--slo-scale", 0.1)
    assert ran.code == 0
    told = " ".join(ran.out.split())
    assert "esg: of 40 requests 40 were refused" in told
    one = " ".join(esg("emulate", "--requests", 1, "--slo-scale", 0.1).out.split())
    assert "esg: of 1 request 1 was refused" in one
    assert "and 0 failed, were dropped as too late, or were cancelled." in told
    assert "refused" not in esg("emulate", *SHORT).out
    (refused,) = document(esg, *SHORT, "--slo-scale", 0.1)["results"]
    assert (refused["refused"], refused["slo_hit_rate"], refused["cost_usd"]) == (40, 0, 0)
    assert refused["latency_ms"]["p50"] is None


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_the_table_of_many_runs_fits(
    esg: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    policies = "esg,infless,fast-gshare-lean,infless-config-first"
    ran = esg("emulate", "--requests", 20, "--policy", policies, "--seeds", 2)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines()[1:])) <= columns  # the first is one line in a pipe
    assert "…" not in ran.out
    assert "(95 %)" in " ".join(ran.out.split())
    for name in APPLICATIONS:
        assert name.rpartition("-")[2] in ran.out


def test_what_a_narrow_table_has_no_room_for_is_below_it(
    esg: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    told = esg("emulate", *SHORT).out
    assert re.search(r"^esg +100\.0% +0\.\d{4} +\d+ +\d+ ", told, re.MULTILINE)
    assert re.search(r"^vGPU use: esg \d+\.\d%$", told, re.MULTILINE)
    assert re.search(r"^decide ms: esg \d\.\d{3}$", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("columns", "shown"), [(80, r"^esg .* {count}$"), (60, r"^cold starts: esg {count}$")]
)
def test_cold_starts_are_told_where_there_are_some(
    esg: Run, monkeypatch: pytest.MonkeyPatch, columns: int, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    count = result(esg, "--cold-start")["cold_starts"]
    told = esg("emulate", *SHORT, "--cold-start").out
    assert re.search(shown.format(count=count), told, re.MULTILINE)
    assert "cold starts: tasks that were sent out before" in " ".join(told.split())
    assert "cold" not in esg("emulate", *SHORT).out


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """What each bar was told, as shares of its total."""
    told: dict[str, list[float]] = {}

    @contextmanager
    def bar(text: str, total: float, *, shown: bool) -> Iterator[Callable[[float], None]]:
        shares = told[text] = []
        yield lambda completed: shares.append(completed / total)

    monkeypatch.setattr(cli.study, "progress_bar", bar)
    return told


def test_a_run_has_a_bar_and_so_have_its_limits(esg: Run, bars: dict[str, list[float]]) -> None:
    assert esg("emulate", "--requests", 400).code == 0
    assert bars == {"esg": [0.25, 0.5, 0.75, 1, 1], "limits": [0.25, 0.5, 0.75, 1, 1]}


def test_limits_do_not_count_as_runs(esg: Run, bars: dict[str, list[float]]) -> None:
    assert esg("emulate", *SHORT, "--policy", "esg,orion", "--seeds", 2, "--workers", 1).code == 0
    ((text, shares),) = bars.items()
    assert text == "4 runs"
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_bar_ends_where_the_trace_does(
    esg: Run, bars: dict[str, list[float]], counts: Path
) -> None:
    for option in ("--duration", "--requests"):
        assert esg("emulate", "--trace", counts, option, 1000).code == 0
        for shares in bars.values():
            assert 0.5 < shares[0] < 0.65  # after 100 requests of 180
            assert shares[-1] == 1


def test_a_bar_moves_on_a_terminal_and_nowhere_else() -> None:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [ESG, "emulate", "--requests", "300"],
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        assert process.wait(timeout=60) == 0
    finally:
        os.close(ours)
    assert b"esg" in shown
    assert b"%" in shown


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # that is how a terminal ends on Linux
        return b""


# Learning.


def test_policies_that_learn_are_trained_on_what_they_will_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog, told = load_catalog(), []

    def train(seen: Catalog, *, seed: int, progress: training.Progress) -> dict[str, Any]:
        for name in seen.applications:
            progress(name, 7, 7)
        told.append((seen, seed))
        return {"learnt": {}}

    monkeypatch.setattr(training, "trained_configs", train)
    assert trained_for(["esg", "orion"], catalog, shown=True) == {}
    assert trained_for(["esg", "aquatope"], catalog, shown=True) == {"learnt": {}}
    assert told == [(catalog, TRAINING_SEED)]


def test_aquatope_runs_with_what_it_learnt(esg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(seen: Catalog, **_: object) -> dict[str, Any]:
        return {
            name: {stage.name: stage.function.profile.minimum for stage in each.stages.values()}
            for name, each in seen.applications.items()
        }

    monkeypatch.setattr(training, "trained_configs", train)
    assert result(esg, "--policy", "aquatope", "--slo-scale", 2)["mean_batch"] == 1


# Refused.

REFUSED = {
    "--setting strict": "unknown setting 'strict'; did you mean 'strict-light'?",
    "--setting fast": "unknown setting 'fast'; known: strict-light, moderate-normal, relaxed-heavy",
    "--policy esgg": "--policy: unknown policy 'esgg'; did you mean 'esg'?",
    "--policy esg,": "--policy: unknown policy ''; known: apex, esg, ...",
    "--policy esg,orion,esg": "--policy: 'esg' is named twice; name it once",
    "--slo-scale 0": "--slo-scale is 0; it must be greater than 0 ...",
    "--slo-scale -1": "--slo-scale is -1; it must be greater than 0 ...",
    "--slo-scale nan": "--slo-scale is nan; it must be greater than 0 ...",
    "--slo-scale 1e9": "--slo-scale is 1e+09; ...at most 1000",
    "--rate hevy": "unknown rate 'hevy'; did you mean 'heavy'?...",
    "--rate 0/s": "rate '0/s': give a rate above 0 ...",
    "--rate seventeen": "unknown rate 'seventeen'; known: heavy, normal, light; or give a num...",
    "--rate 17": "rate 17: say per what, as in 17/s or 17/min",
    "--nodes 0": "--nodes is 0; it must be at least 1",
    "--vcpus 0": "--vcpus is 0; it must be at least 1",
    "--vgpus -2": "--vgpus is -2; it must be at least 1",
    "--nodes 1000000": "--nodes is 1000000; it must be at most 10000",
    "--vgpus 1000000": "--vgpus is 1000000; it must be at most 10000",
    "--nodes 10000 --vgpus 10000": "10000 nodes x 10000 vGPUs are 100000000 vGPUs; ...at most ...",
    "--seeds 1000000": "--seeds is 1000000; it must be at most 10000",
    "--journal a --trace-out ./a": "--journal and --trace-out are the same file, a; name ...",
    "--nodes two": "--nodes: ...valid...; see esg emulate --help",
    "--requests 99999999999999999999": "--requests is 99999999999999999999; ...at most 1000000000",
    "--without holding": "--without is about policy apex; name it with --policy",
    "--remote-delay-ms -1": "--remote-delay-ms is -1; it must be from 0 ...",
    "--remote-mb-per-s 0": "--remote-mb-per-s is 0; it must be greater than 0 ...",
    "--requests 0": "--requests is 0; it must be at least 1",
    "--duration 0": "--duration is 0; it must be greater than 0 ...",
    "--duration 1e-6": "no request comes in this time; give a longer one",
    "--duration 1e-6 --seeds 2": "no request comes in this time; give a longer one",
    "--duration 0.016 --seeds 6": "no request comes in this time with seed 3; give a longer one",
    "--requests 5 --duration 5": "--requests and --duration are two ways to stop; give one of them",
    "--seed 1 --seeds 2": "--seed and --seeds are two ways to choose; give one of them",
    "--seeds 0": "--seeds is 0; it must be at least 1",
    "--k 0": "--k is 0; it must be at least 1",
    "--group-size 0": "--group-size is 0; it must be at least 1",
    "--engine astr": "--engine: unknown engine 'astr'; did you mean 'astar'?",
    "--noise -1": "--noise is -1; it must be from 0 to 100",
    "--overhead guessed": "unknown overhead 'guessed'; known: none, counted, measured",
    "--nodes-per-ms 0": "--nodes-per-ms is 0; it must be at least 1",
    "--workers 0": "--workers is 0; it must be at least 1",
    "--format counts": "--format is that of a trace; name one with --trace",
    "--trace nowhere.csv": "nowhere.csv...",
    "--journal a.journal --seeds 2": "--journal is about one run; name one policy and one seed",
    "--journal a.journal --policy esg,orion": "--journal is about one run; ...",
    "--trace-out a.json --policy esg,orion": "--trace-out is about one run; ...",
    "--journal no/folder/a.journal": "no/folder/a.journal: cannot be written: ...",
    "--trace-out /dev/null": "/dev/null: is not a regular file; name another one",
    "--catalog nowhere.toml": "nowhere.toml: no such file; correct --catalog ...",
    "strict-light": "...extra argument...strict-light...; see esg emulate --help",
}


def test_no_rate_is_not_any_rate(esg: Run) -> None:
    assert_refused(esg("emulate", "--rate", "", "--requests", 3), "unknown rate ''; ...")


@pytest.mark.parametrize(("line", "words"), REFUSED.items())
def test_esg_emulate_refuses_in_one_line(esg: Run, line: str, words: str) -> None:
    assert_refused(esg("emulate", *line.split()), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "...trace.csv: empty; give a trace"),
        ("minute,count\n0,many\n", "...trace.csv:2: ...many...; give a whole number ..."),
        ("minute,count\n0,-3\n", "...trace.csv:2: ...-3...; give a whole number ..."),
        ("what,is,this\n1,2,3\n", "...trace.csv:1: cannot tell the format: ..."),
        ("minute,count\n0,0\n", "...trace.csv: no request comes in it; name another one"),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("--policy", "esg,orion"), ("--duration", "5")])
def test_a_malformed_trace_is_refused_by_its_line(
    esg: Run, tmp_path: Path, content: str, words: str, arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(content, "utf-8")
    assert_refused(esg("emulate", "--trace", path, *arguments), words)


def test_a_time_before_the_first_request_of_a_trace_is_too_short(esg: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("minute,count\n0,0\n1,9\n", "utf-8")
    ran = esg("emulate", "--trace", path, "--duration", 5)
    assert_refused(ran, "no request comes in this time; give a longer one")


def test_a_rate_at_which_nothing_comes_is_too_low(esg: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("minute,count\n0,3\n", "utf-8")
    ran = esg("emulate", "--trace", path, "--rate", "0.001/s")
    assert_refused(ran, "...trace.csv: no request comes at the rate 0.001/s; give a higher one")


@pytest.mark.parametrize("option", ["--journal", "--trace-out"])
def test_no_output_takes_the_place_of_the_trace(esg: Run, tmp_path: Path, option: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("minute,count\n0,5\n", "utf-8")
    ran = esg("emulate", "--trace", path, option, tmp_path / "." / "trace.csv")
    assert_refused(
        ran, f"--trace and {option} are the same file, ...trace.csv; name different ones"
    )
    assert path.read_text("utf-8") == "minute,count\n0,5\n"
