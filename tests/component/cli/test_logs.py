"""`esg logs`, in directories that a mesh might have left, or runs in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from esg.local.procfs import look
from esg.local.run_directory import RunDirectory
from tests.component.cli.conftest import Run
from tests.support.waiting import LIMIT_S, wait_until


@pytest.fixture
def place(tmp_path: Path) -> RunDirectory:
    place = RunDirectory(tmp_path / "mesh")
    place.make_private()
    place.logs.mkdir()
    (place.logs / "gateway.log").write_text("g1\ng2\ng3\n")
    (place.logs / "node-0.log").write_text("n1\n\x1b[31mn2")
    return place


def test_the_logs_of_all_processes_are_shown_behind_their_names(
    esg: Run, place: RunDirectory
) -> None:
    ran = esg("logs", "--dir", place.path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "gateway | g1",
        "gateway | g2",
        "gateway | g3",
        "node-0 | n1",
        "node-0 | \\x1b[31mn2",
    ]
    place.log.write_text("ready\n")
    assert esg("logs", "--dir", place.path).out.startswith("mesh | ready\n")


def test_the_last_lines_of_one_process_are_shown_as_they_are(esg: Run, place: RunDirectory) -> None:
    assert esg("logs", "gateway", "-n", "2", "--dir", place.path).out == "g2\ng3\n"
    assert esg("logs", "gateway", "-n", "0", "--dir", place.path).out == ""


def test_process_or_mesh_without_logs_is_refused_with_advice(
    esg: Run, place: RunDirectory, tmp_path: Path
) -> None:
    ran = esg("logs", "gatway", "--dir", place.path)
    assert (ran.code, ran.out) == (2, "")
    assert "unknown process 'gatway'; did you mean 'gateway'?" in ran.err
    ran = esg("logs", "--dir", tmp_path / "none")
    assert (ran.code, ran.out) == (2, "")
    assert "start a mesh with esg up, or name its directory" in ran.err


def test_following_a_mesh_that_has_ended_ends(esg: Run, place: RunDirectory) -> None:
    ran = esg("logs", "node-0", "-f", "--dir", place.path)
    assert (ran.code, ran.out) == (0, "n1\n\\x1b[31mn2\n")


def test_new_lines_and_new_processes_are_followed_until_the_mesh_is_down(
    place: RunDirectory, tmp_path: Path
) -> None:
    own = look(os.getpid())
    assert own is not None
    record = place.path / "mesh.json"
    supervisor = {"pid": os.getpid(), "began": own.began}
    record.write_text(json.dumps({"supervisor": supervisor, "processes": []}))
    out = tmp_path / "out"
    code = "import sys; from esg.cli.main import run; sys.exit(run())"
    with out.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", code, "logs", "-f", "-n", "1", "--dir", str(place.path)],
            stdout=file,
        )
    try:
        wait_until(lambda: out.read_text() == "gateway | g3\nnode-0 | n1\n")
        with (place.logs / "node-0.log").open("a") as log:
            log.write(" goes on\nn3\n")
        (place.logs / "node-1.log").write_text("m1\n")
        wait_until(lambda: out.read_text().endswith("node-1 | m1\n"))
        (place.logs / "gateway.log").write_text("g\n")  # begun anew, and shorter
        wait_until(lambda: out.read_text().endswith("gateway | g\n"))
        record.unlink()
        assert child.wait(LIMIT_S) == 0
    finally:
        child.kill()
        child.wait(LIMIT_S)
    assert out.read_text().splitlines()[2:4] == ["node-0 | \\x1b[31mn2 goes on", "node-0 | n3"]
