"""`esg demo`, as a process of its own: a real mesh, from its start to its end."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from esg.cli.demo.expected_outputs import expected_outputs
from esg.cli.demo.run import PICTURE, DemoFindings
from esg.cli.demo.view import DemoView
from esg.client import Config, Outcome, Result, StageResult
from esg.core.catalog.file import load_catalog
from esg.core.emulated_output import emulated_output
from esg.loadgen.send import SentRequest
from esg.local.procfs import alive
from esg.local.run_directory import RunDirectory
from esg.workload.arrivals import Arrival
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.waiting import COMMAND_LIMIT_S, wait_until

ESG = Path(sys.executable).with_name("esg")
SMALL = ("--nodes", "2", "--seconds", "2", "--rate", "14/s")
REQUESTS = 27


def surroundings(temporary: Path) -> Mapping[str, str]:
    """Without settings, in 80 columns, and with a place of its own for what is temporary."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ESG_")}
    return clean | {"COLUMNS": "80", "TMPDIR": str(temporary)}


def ran(temporary: Path, *arguments: str) -> str:
    done = subprocess.run(
        [ESG, "demo", *SMALL, *arguments],
        env=surroundings(temporary),
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(temporary.iterdir()) == []
    return done.stdout


def test_the_story_is_told_in_80_columns(tmp_path: Path) -> None:
    out = ran(tmp_path)
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert "\x1b" not in out
    assert re.search(r"The mesh is up after [\d.]+ s: redis, controller, gateway, 2 nodes\.", out)
    for name, application in load_catalog().applications.items():
        assert re.search(rf"^{name} +node[01](, node[01])? +\d+ +\d+ +[\d.]+ +verified$", out, re.M)
        configs = " ".join([r"\d+/\d+/\d+"] * len(application.stages))
        assert re.search(rf"^{configs} *$", out, re.M)
        assert re.search(rf"^{name} +\d+ +[\d.]+% +\d+ +\d+ +[\d.]+ +\d+ +\d+ *$", out, re.M)
    assert re.search(rf"^all +{REQUESTS} +[\d.]+% +\d+ +\d+ +[\d.]+ +\d+ +\d+ +0$", out, re.M)
    assert f"{REQUESTS} of {REQUESTS} results verified byte for byte." in out
    assert re.search(r"^Everything is down again, \d+ s after the beginning\.$", out, re.M)


def test_the_document_has_the_same_story(tmp_path: Path) -> None:
    found = json.loads(ran(tmp_path, "--json"))
    applications = load_catalog().applications
    assert found["mesh"]["processes"] == ["redis", "controller", "gateway", "node0", "node1"]
    assert [row["application"] for row in found["pictures"]] == list(applications)
    for row in found["pictures"]:
        assert (row["outcome"], row["verified"]) == ("done", True)
        assert [stage["stage"] for stage in row["stages"]] == list(
            applications[row["application"]].stages
        )
    load = found["load"]
    assert (load["requests"], load["verified"], load["failed"]) == (REQUESTS, REQUESTS, 0)
    assert (load["rate"], load["seconds"], load["cold_starts"]) == ("14/s", 2, 0)
    transfers = sum(
        row["requests"] * (len(applications[name].stages) - 1)
        for name, row in load["applications"].items()
    )
    assert load["local_transfers"] + load["remote_transfers"] == transfers
    assert found["whole_s"] > found["mesh"]["up_s"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_takes_everything_down(number: signal.Signals, tmp_path: Path) -> None:
    records: list[dict[str, Any]] = []

    def up() -> bool:
        found = [RunDirectory(path).read() for path in tmp_path.iterdir() if path.is_dir()]
        records[:] = [record for record in found if record]
        return any(record["up"] for record in records)

    with subprocess.Popen(
        [ESG, "demo", "--nodes", "1"],
        env=surroundings(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(up)
            process.send_signal(number)
            _, err = process.communicate(timeout=COMMAND_LIMIT_S)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "")
    running = records[0]["processes"]
    assert [row["name"] for row in running] == ["redis", "controller", "gateway", "node0"]
    assert [alive(row["pid"], row["began"]) for row in running] == [None] * 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seconds", 0), "--seconds is 0; it must be greater than 0 and at most 3600"),
        (("--nodes", 0), "--nodes is 0; it must be at least 1"),
        (("--rate", "havy"), "unknown rate 'havy'; did you mean 'heavy'?..."),
        (("--nodes", 5000), "nodes is 5000; it must be from 1 to 1000"),
    ],
)
def test_esg_demo_refuses_impossible_options_in_one_line(
    esg: Run, arguments: tuple[object, ...], words: str
) -> None:
    assert_refused(esg("demo", "--json", *arguments), words)


# ---- what is right and what is not


def result(outcome: Outcome = Outcome.DONE, reason: str = "") -> Result:
    stage = StageResult(
        stage="detect",
        task="t1",
        node="node3",
        config=Config(1, 2, 3),
        ready_ms=0,
        started_ms=0,
        finished_ms=5,
        cost_usd=0.001,
    )
    return Result(
        request_id="r1",
        application="photo",
        outcome=outcome,
        reason=reason,
        slo_met=True,
        slo_ms=10,
        latency_ms=5,
        cost_usd=0.001,
        stages=(stage,),
    )


def told(found: DemoFindings) -> str:
    written = StringIO()
    view = DemoView(Console(file=written, width=80))
    view.pictures(found, 10_000)
    view.served(found.served)
    return written.getvalue()


def test_a_wrong_picture_is_no_success() -> None:
    found = DemoFindings(pictures=[(result(), True), (result(), False)])
    assert not found.all_right
    assert [word for word in told(found).split() if word in ("verified", "wrong")][:2] == [
        "verified",
        "wrong",
    ]


def test_a_picture_that_failed_says_why() -> None:
    found = DemoFindings(pictures=[(result(Outcome.FAILED, "node3 was lost"), False)])
    assert "photo: node3 was lost" in told(found)


def test_a_wrong_answer_under_load_is_no_success() -> None:
    found = DemoFindings(pictures=[(result(), True)])
    for number in (1, 2):
        found.served.outcome.add(SentRequest(number, Arrival(0, "photo"), 0, 5000, result()))
    found.served.verified = 1
    assert not found.all_right
    assert "1 of 2 results verified byte for byte." in told(found)
    found.served.verified = 2
    assert found.all_right


@pytest.mark.parametrize(("late_us", "busy"), [(5_000, False), (50_000, True)])
def test_a_busy_machine_is_told(late_us: int, busy: bool) -> None:
    found = DemoFindings()
    found.served.outcome.add(SentRequest(1, Arrival(0, "photo"), late_us, 5000, result()))
    assert ("This machine is busy: 1 in 100 requests went out 50 ms late" in told(found)) is busy


def test_an_error_under_load_is_told() -> None:
    found = DemoFindings()
    lost = SentRequest(1, Arrival(0, "photo"), 0, 5000, None, "the gateway has ended the stream")
    found.served.outcome.add(lost)
    assert not found.all_right
    assert "1 x the gateway has ended the stream" in told(found)


def test_results_are_reckoned_along_the_dag(street: Path) -> None:
    application = load_catalog(street).application("street")
    size = 32
    first = emulated_output("deblur", [b"picture"], size)
    left = emulated_output("segmentation", [first], size)
    right = emulated_output("depth", [first], size)
    last = emulated_output("classification", [left, right], size)
    assert expected_outputs(application, b"picture", 0) == {"classification": last}
    assert expected_outputs(application, b"pictures", 0) != {"classification": last}


def test_the_picture_is_a_small_png() -> None:
    content = PICTURE.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(content) < 30_000
