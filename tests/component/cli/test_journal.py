"""`esg journal check`: what is whole of a journal, and what is not."""

import json
from pathlib import Path

import pytest

from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.sealed import plain, sealed
from tests.support.written_journal import write_journal


@pytest.fixture
def mesh(tmp_path: Path) -> Path:
    write_journal(tmp_path / "mesh.journal")
    return tmp_path / "mesh.journal"


@pytest.fixture
def emulated(esg: Run, tmp_path: Path) -> Path:
    path = tmp_path / "run.journal"
    assert esg("emulate", "--requests", 5, "--nodes", 2, "--journal", path).code == 0
    return path


def test_a_whole_journal_is_listed_by_its_segments(esg: Run, mesh: Path) -> None:
    ran = esg("journal", "check", mesh)
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["00000001.journal", "5", "3", "0.020", "0.060", "whole"] in rows
    assert ["00000002.journal", "7", "4", "0.080", "0.140", "whole"] in rows


def test_damage_is_told_with_its_place_and_exit_code_1(esg: Run, mesh: Path) -> None:
    last = mesh / "00000002.journal"
    last.write_bytes(last.read_bytes().replace(b'"run5"', b'"run9"'))
    place = sum(map(len, last.read_bytes().splitlines(keepends=True)[:4]))
    ran = esg("journal", "check", mesh)
    assert ran.code == 1
    assert ["00000002.journal", "2", "1", "0.080", "0.080", "not", "whole"] in [
        line.split() for line in ran.out.splitlines()
    ]
    assert f"{last}: line 5 (byte {place}) is damaged: its checksum does not fit" in ran.out


def test_the_same_as_a_document(esg: Run, mesh: Path) -> None:
    first = mesh / "00000001.journal"
    first.write_bytes(b"".join(first.read_bytes().splitlines(keepends=True)[:-1]))
    ran = esg("journal", "check", mesh, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["whole"]) == (1, False)
    assert [segment["whole"] for segment in found["segments"]] == [True, False]
    assert "does not go on where the segment before it ends" in found["segments"][1]["problem"]


def test_a_torn_end_of_a_mesh_is_no_damage(esg: Run, mesh: Path) -> None:
    with (mesh / "00000002.journal").open("ab") as file:
        file.write(b'{"at":9')
    ran = esg("journal", "check", mesh)
    assert ran.code == 0
    assert "whole; torn end: 7 B" in ran.out


def test_orders_are_compared_on_demand(esg: Run, emulated: Path) -> None:
    ran = esg("journal", "check", emulated, "--replay")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "Replayed: the same orders.")
    lines = plain(emulated)
    lines[10] = json.dumps(json.loads(lines[10]) | {"orders": "f" * 16})
    emulated.write_bytes(sealed(lines))
    assert esg("journal", "check", emulated).code == 0
    ran = esg("journal", "check", emulated, "--replay")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].startswith("the replay is not identical: entry 10 at ")
    ran = esg("journal", "check", emulated, "--replay", "--json")
    assert (ran.code, json.loads(ran.out)["replayed"]) == (1, False)


def test_what_is_not_there_is_refused(esg: Run, tmp_path: Path) -> None:
    assert_refused(esg("journal", "check", tmp_path / "none"), "...no such file or directory")
    assert_refused(esg("journal", "check", tmp_path), "...no segment of a journal is in ...")
