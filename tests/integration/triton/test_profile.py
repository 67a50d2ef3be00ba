"""`esg profile` on real Triton servers."""

import json
from pathlib import Path

import pytest

from esg.cli import program
from esg.console.entry import run_app
from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from tests.support.triton_folders import write_functions


def test_functions_are_measured_on_cpu_slices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_functions(tmp_path), tmp_path / "measured"
    asked = "--quick --json --slices cpu:2 --functions invert,join,broken --batches 1,2 --vcpus 1"
    code = run_app(
        program.app,
        "esg",
        ["profile", *asked.split(), "--catalog", f"{source}", "--out", f"{out}"],
    )
    found = json.loads(capsys.readouterr().out)
    assert code == 1
    assert list(found["problems"]) == ["broken"]
    assert "no weights today" in found["problems"]["broken"]

    catalog = load_catalog(out / "catalog.toml")
    assert list(catalog.applications) == ["invert", "join", "twice"]
    for function in catalog.functions.values():
        assert function.profile.configs == (Config(1, 1, 1), Config(2, 1, 1), Config(2, 1, 2))
        assert "triton: 2." in function.profile.provenance
        assert 1 < function.memory_mb < 1000
        assert function.cold_start_us > 0
    assert catalog.functions["invert"].folder == str(source.parent / "invert")
