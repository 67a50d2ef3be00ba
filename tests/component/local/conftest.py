"""Surroundings without settings, and stand-ins for the services."""

import os
from pathlib import Path

import pytest

from esg.local import programs

collect_ignore = ["stand_ins"]

STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ESG_"):
            monkeypatch.delenv(name)


@pytest.fixture
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a mesh are these instead of the real ones."""
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    monkeypatch.setattr(programs, "MODULES", {service: service for service in programs.MODULES})
