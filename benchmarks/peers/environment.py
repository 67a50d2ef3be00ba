"""An environment of its own for each peer, made on the first run: their dependencies and ours do
not go together."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.live import ROOT
from esg.errors import Fault

PLACE = ROOT / ".peers"
STAMP = "installed.txt"


def environment(name: str, requirements: tuple[str, ...]) -> Path:
    """The folder of a virtual environment that has these, and nothing newer."""
    folder = PLACE / name
    wanted = "\n".join(requirements)
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    _run([sys.executable, "-m", "venv", "--clear", folder])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", *requirements])
    stamp.write_text(wanted)
    return folder


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Fault(f"it cannot be installed: {done.stderr.strip()[-500:]}")
