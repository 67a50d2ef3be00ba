"""Following README.md at the root of a clone leaves nothing for git to see."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.examples import pages
from tests.support.paths import ROOT

WRITING = "--out", "--journal", "--csv", "--html", "--save-arrivals", "--trace-out"
UNNAMED = "esg-demo/page", "esg-reproduce.html", "measured/catalog.toml", "secrets/ca.key"
"""What commands write where they are told nothing."""


def test_files_that_commands_of_the_docs_write_are_ignored() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    options = "|".join(WRITING)
    text = "".join(page.read_text("utf-8") for page in pages())
    named = {Path(path) for path in re.findall(rf"(?:{options}) ([a-z][\w./-]*)", text)}
    assert len(named) > 5
    folders = {path / "any" if not path.suffix else path for path in named}
    paths = sorted(map(str, folders)) + list(UNNAMED)
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == paths
