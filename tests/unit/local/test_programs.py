"""The processes of a mesh on one machine: what each is told."""

from pathlib import Path
from typing import Any

from esg.local.options import Chosen, MeshOptions
from esg.local.programs import Programs
from esg.local.run_directory import RunDirectory

SALVAGE = "ESG_CONTROLLER_JOURNAL_SALVAGE"


def programs(**options: Any) -> Programs:
    return Programs(Chosen(MeshOptions(**options), {}), RunDirectory(Path("nowhere")))


def test_a_controller_that_is_started_again_salvages_nothing_more() -> None:
    mesh = programs(resume=True, salvage=True)
    first = mesh.controller()
    assert first.environ[SALVAGE] == "true"
    assert mesh.again(first, "127.0.0.1:5").environ[SALVAGE] == "false"


def test_only_who_asks_for_it_has_a_journal_salvaged() -> None:
    assert SALVAGE not in programs(resume=True).controller().environ
