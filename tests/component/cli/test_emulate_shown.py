"""What `esg emulate` shows to people: tables, headings and bars."""

import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from esg.cli.evaluation import study
from esg.console import progress
from tests.component.cli.conftest import Run
from tests.support.emulated_command import APPLICATIONS, ESG, SHORT, document, result
from tests.support.emulated_command import counts as counts


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
    assert "esg: of 40 requests, 40 refused as invalid (no config is fast enough" in told
    one = " ".join(esg("emulate", "--requests", 1, "--slo-scale", 0.1).out.split())
    assert "esg: of 1 request, 1 refused as invalid" in one
    assert re.search(r"^esg +- +- ", ran.out, re.MULTILINE)
    assert "refused as invalid" not in esg("emulate", *SHORT).out
    (refused,) = document(esg, *SHORT, "--slo-scale", 0.1)["results"]
    assert (refused["refused"], refused["slo_hit_rate"], refused["cost_usd"]) == (40, None, 0)
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
    assert "95 % confidence interval" in " ".join(ran.out.split())
    for name in APPLICATIONS:
        assert name.rpartition("-")[2] in ran.out


def test_columns_that_a_narrow_table_has_no_room_for_are_below_it(
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


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_progress_without_a_terminal_is_lines_on_stderr(
    esg: Run, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    quiet = esg("emulate", "--requests", 300, *how)
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.0)
    told = esg("emulate", "--requests", 300, *how)
    assert quiet.err == ""
    assert re.search(r"^esg: 33% after \d+ s, about \d+ s left$", told.err, re.MULTILINE)
    assert re.search(r"^limits: \d+% after \d+ s, about \d+ s left$", told.err, re.MULTILINE)
    assert "after" not in told.out


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """What each bar was told, as shares of its total."""
    told: dict[str, list[float]] = {}

    @contextmanager
    def bar(text: str, total: float, *, shown: bool) -> Iterator[Callable[[float], None]]:
        shares = told[text] = []
        yield lambda completed: shares.append(completed / total)

    monkeypatch.setattr(study, "progress_bar", bar)
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


def test_unusual_settings_are_in_the_heading(esg: Run) -> None:
    unusual = "--engine astar --k 1 --group-size 2 --search-steps-per-ms 50 --remote-delay-ms 1"
    told = " ".join(esg("emulate", *SHORT, *unusual.split()).out.split())
    for words in ("engine astar", "K = 1", "groups of 2", "50 search steps per ms", "inputs 1 ms"):
        assert words in told
    assert (
        "strict-light"
        not in esg("emulate", *SHORT, "--setting=strict-light", "--k=1", "--rate=9/s").out
    )
