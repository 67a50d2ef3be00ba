"""What tests of `esg emulate` share."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from esg.core.catalog.file import load_catalog
from tests.component.cli.conftest import Run

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
