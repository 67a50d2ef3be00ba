"""What the pages of docs/ tell their readers to type runs as it is printed: `make docs-check`.

A page is one shell script, run with the wheel installed, in a folder that holds the files which the
page has its readers write, and of the checkout only what is no code. What is changed before it runs
is named here, with why.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.examples import pages, programs, script, write_files
from tests.support.paths import ROOT
from tests.support.wheel import Environment, built, installed

LIMIT_S = 1800

LINKS = (
    "deploy",
    "docker-compose.yml",
    "esg/functions",  # pictures, and folders to copy
    "esg/profiles",
    "esg/workload/day.csv",
    ".venv-models",
)
"""What pages read of the checkout. None of it can be imported."""

ELSEWHERE = {
    "README.md": "tests/integration/test_examples.py runs it",
    "client.md": "tests/integration/test_examples.py runs it",
    "gpu-host.md": "it is for hosts with GPUs, and for registries of images; tests/deploy has what "
    "a Docker engine alone can show",
}

BEFORE = {
    "catalog.md": ["esg up --detach"],  # "if a mesh is up"
    "loadgen.md": ["esg up --detach"],  # as its first line says
}
AFTER = {
    "security.md": ["esg down --dir ./my-mesh"],
}

CHANGED = {
    # It needs a terminal, and ends when somebody ends it
    "esg top": ":",
    "esg logs -f": "esg logs",
    # Shorter, as all that matters is that it runs
    "--duration 600": "--duration 10",
    "--duration 60": "--duration 5",
    "--duration 30": "--duration 5",
    # It would stay in the foreground; and what follows it looks at the mesh
    "esg up --slices cpu:2 --catalog measured/catalog.toml": "esg up --slices cpu:2 --catalog "
    "measured/catalog.toml --detach",
    # Names that stand for the reader's own
    "last-week/": "measured/",
    "--journal DIR": '--journal "$ESG_DIR/mesh.journal"',
}

DASK = """
from concurrent.futures import ThreadPoolExecutor


class Client:
    def __init__(self, address: str) -> None:
        self._threads = ThreadPoolExecutor(2)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def get_executor(self) -> ThreadPoolExecutor:
        return self._threads
"""
"""Threads by the interface of a Dask cluster, of which there is none here."""


OWN_POLICY = "my_policies.py"
"""What emulator.md has its readers bring: the example of CONTRIBUTING.md."""


def changed(line: str) -> str:
    for printed, typed in CHANGED.items():
        line = line.replace(printed, typed)
    return line


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    wheel = built("wheel", tmp_path_factory.mktemp("built"))
    return installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def folder(tmp_path: Path, environment: Environment) -> Path:
    for name in LINKS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(environment.bin.parent)
    return tmp_path


@pytest.fixture
def environ(folder: Path, environment: Environment) -> Iterator[dict[str, str]]:
    outside = ("ESG_", "PYTHON")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    clean |= {
        "PATH": f"{environment.bin}:{os.environ['PATH']}",
        "ESG_DIR": str(folder / "mesh"),
        "ESG_INVOKER_TRITON": str(folder / ".venv-models"),  # what `make models` makes
    }
    yield clean
    subprocess.run([environment.bin / "esg", "down"], env=clean, capture_output=True, check=False)


def run(arguments: list[str], folder: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]


PAGES = [page for page in pages() if page.name not in ELSEWHERE and script(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_in_their_order(
    page: Path, folder: Path, environ: dict[str, str]
) -> None:
    write_files(page, folder)
    (folder / OWN_POLICY).write_text(programs(ROOT / "CONTRIBUTING.md")[0], "utf-8")
    lines = map(changed, script(page))
    whole = ["set -ex", *BEFORE.get(page.name, ()), *lines, *AFTER.get(page.name, ())]
    run(["bash", "-c", "\n".join(whole)], folder, environ)


@pytest.mark.slow
def test_the_programs_of_the_page_about_the_emulator_run(
    folder: Path, environ: dict[str, str]
) -> None:
    first, second = programs(ROOT / "docs" / "emulator.md")
    (folder / "distributed.py").write_text(DASK, "utf-8")
    shorter = first.replace("range(20)", "range(2)").replace("requests=2000", "requests=200")
    (folder / "sweeps.py").write_text(shorter + second, "utf-8")
    run([".venv/bin/python", "sweeps.py"], folder, environ)


def test_every_page_with_commands_is_run_somewhere() -> None:
    assert {page.stem for page in PAGES} >= {"catalog", "functions", "mesh", "policies", "profiles"}
    assert [name for name in ELSEWHERE if name not in {page.name for page in pages()}] == []
