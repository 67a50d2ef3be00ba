"""What docs/journal.md says of the format is so, and its examples run as printed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from esg.core.journal.format import FORMAT
from esg.core.messages.events import EVENTS
from esg.runtime.journal_files import segment_files
from tests.component.cli.conftest import Run
from tests.support.examples import commands, programs, shell_lines
from tests.support.paths import ROOT
from tests.support.written_journal import write_journal

PAGE = ROOT / "docs" / "journal.md"
TEXT = PAGE.read_text("utf-8")


@pytest.fixture
def folder(esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One in which a reader has typed the commands of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for _, *arguments in commands(PAGE):
        ran = esg(*arguments)
        assert ran.code == 0, ran.err
    return tmp_path


def documented() -> dict[str, set[str]]:
    """The keys of each kind of line, by the page's table."""
    found: dict[str, set[str]] = {}
    kind = ""
    for first, key in re.findall(r"^\| (\w*) ?\| `(\w+)` \|", TEXT, re.MULTILINE):
        kind = first or kind
        found.setdefault(kind, set()).add(key)
    return found


def test_the_table_has_every_key_of_every_line(folder: Path) -> None:
    keys = documented()
    write_journal(folder / "mesh.journal")
    segments = segment_files(folder / "mesh.journal")
    seen: dict[str, set[str]] = {}
    for file in (folder / "run.journal", *segments):
        for line in map(json.loads, file.read_text("utf-8").splitlines()):
            kind = next(kind for kind in keys if keys[kind] & line.keys())
            seen.setdefault(kind, set()).update(line.keys() - {"crc"})
    assert seen == {kind: keys[kind] for kind in ("header", "snapshot", "entry")}
    assert keys["all"] == {"crc"}
    assert f"version of this format: {FORMAT} |" in TEXT


def test_the_page_names_every_event() -> None:
    (told,) = re.findall(r"^Events are, .*?their fields\.$", TEXT, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`([A-Z]\w+)`", told)) == {kind.__name__ for kind in EVENTS}


def test_the_programs_of_the_page_run(folder: Path) -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder
        ).stdout
        for program in programs(PAGE)
    ]
    events, orders, checksums = outputs
    assert events.startswith("esg\nCounter({")
    assert events.count("\n") == 2 + 200
    assert orders.count(" done ") == 200
    assert checksums == ""


def test_the_program_for_checksums_finds_a_changed_line(folder: Path) -> None:
    journal = folder / "run.journal"
    journal.write_bytes(journal.read_bytes().replace(b'"r7"', b'"r8"', 1))
    ran = subprocess.run(
        [sys.executable, "-c", programs(PAGE)[-1]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert ran.returncode == 1
    assert "does not fit" in ran.stderr


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
def test_the_lines_for_jq_run(folder: Path) -> None:
    lines = [line for line in shell_lines(PAGE) if line.startswith("jq ")]
    kinds, tasks, requests, policy = (
        subprocess.run(
            ["bash", "-ec", line], capture_output=True, text=True, check=True, cwd=folder
        ).stdout.splitlines()
        for line in lines
    )
    assert ["200", "RequestArrived"] in [line.split() for line in kinds]
    assert ["1", "header"] in [line.split() for line in kinds]
    assert len(tasks) >= 200
    assert len(requests) == 200
    assert policy == ["esg"]
