"""The generated code is what `make protos` makes of the sources, and nobody has edited it."""

import sys
from pathlib import Path
from subprocess import run

from tests.support.paths import ROOT


def test_the_generated_code_is_what_the_sources_give(tmp_path: Path) -> None:
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    sources = sorted(f"esg/protos/{path.name}" for path in (ROOT / "protos").glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", ".", *outputs, *sources]
    run(command, cwd=ROOT, check=True)
    generated = sorted((tmp_path / "esg" / "protos").iterdir())
    assert len(generated) == 3 * len(sources)
    for file in generated:
        assert (ROOT / "protos" / file.name).read_text() == file.read_text(), "run make protos"
