"""Surroundings without settings, and stand-ins for the services."""

import os
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.surroundings import no_settings as no_settings

collect_ignore = ["stand_ins"]

STAND_INS = os.pathsep.join([str(Path(__file__).parent / "stand_ins"), str(ROOT)])
"""What has to be on the PYTHONPATH: they, and the very checkout that is tested."""


@pytest.fixture
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a mesh are these instead of the real ones."""
    monkeypatch.setenv("PYTHONPATH", STAND_INS)
