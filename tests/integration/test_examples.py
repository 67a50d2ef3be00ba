"""The commands of the README and the programs of docs/client.md run as they are printed: with the
wheel installed, in a folder that has the README's photo and nothing else."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from esg.local.supervisor import Mesh
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from tests.support.examples import commands, programs
from tests.support.paths import ROOT
from tests.support.waiting import COMMAND_LIMIT_S
from tests.support.wheel import Environment, built, installed

NEEDS_A_SCREEN = ["esg", "top"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    wheel = built("wheel", tmp_path_factory.mktemp("built"))
    return installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "esg").mkdir()
    (tmp_path / "esg" / "functions").symlink_to(ROOT / "esg" / "functions")
    return tmp_path


@pytest.fixture
def environ(folder: Path, environment: Environment) -> Iterator[dict[str, str]]:
    """Surroundings in which `esg up` has a directory of its own, and leaves nothing."""
    outside = ("ESG_", "PYTHON")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    clean |= {
        "PATH": f"{environment.bin}:{os.environ['PATH']}",
        "ESG_DIR": str(folder / "mesh"),
    }
    yield clean
    subprocess.run(
        [environment.bin / "esg", "down"],
        env=clean,
        capture_output=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )


def run(arguments: list[str], folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(
        ["env", *arguments],  # which looks for the program where `environ` says
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def test_the_commands_of_the_readme_run_in_their_order(
    folder: Path, environ: dict[str, str]
) -> None:
    printed = [line for line in commands(ROOT / "README.md") if line != NEEDS_A_SCREEN]
    assert [line[1] for line in printed if line[0] == "esg"] == ["up", "submit", "emulate", "down"]
    (program,) = programs(ROOT / "README.md")
    for arguments in printed:
        if arguments[1] == "up":
            run([*arguments, "--port", "0"], folder, environ)  # any port: other tests run beside
            environ["ESG_GATEWAY"] = json.loads(run(["esg", "status", "--json"], folder, environ))[
                "gateway"
            ]
            own = program.replace(DEFAULT_GATEWAY, environ["ESG_GATEWAY"])
            assert "done" in run(["python", "-c", own], folder, environ)
        else:
            run(arguments, folder, environ)


@pytest.mark.parametrize("number", range(len(programs(ROOT / "docs" / "client.md"))))
def test_the_programs_of_the_page_about_clients_run(
    number: int, mesh: Mesh, folder: Path, environ: dict[str, str]
) -> None:
    program = programs(ROOT / "docs" / "client.md")[number]
    assert DEFAULT_GATEWAY in program
    own = program.replace(DEFAULT_GATEWAY, mesh.gateway)
    # what the tests' catalog has: an application that takes a picture's bytes for any others
    own = own.replace("image-classification", "photo").replace("pixels, slo_ms", "bytes(9), slo_ms")
    assert run(["python", "-c", own], folder, environ)
