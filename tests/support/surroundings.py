"""Surroundings in which tests of settings run."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this process' own environment is taken for settings."""
    for name in list(os.environ):
        if name.startswith("ESG_"):
            monkeypatch.delenv(name)
