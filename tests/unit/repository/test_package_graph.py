"""The package graph: the tables in CONTRIBUTING.md are what is imported, and have no cycles.

Every package below esg/ has a row in the first table, every room of the core one in the second.
Imports count wherever they stand in a file: at its top, in a function, for type checkers only.
"""

import ast
import re
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.sources import imports, sources

LEAVES = "leaves"
"""The modules that lie directly in a folder, beside its packages."""

Graph = dict[str, set[str]]
OLD_NAMES = {"controller", "gateway", "invoker", "loadgen", "protos", "storage"}


def room(module: str, folder: str) -> str | None:
    """The package (or leaf) of `folder` that a module is in: `esg.runtime.logs` is in `runtime` of
    `esg`. The facade `esg/__init__.py` is a package of its own, named like the folder."""
    inside = f"{folder.replace('/', '.')}."
    if not f"{module}.".startswith(inside):
        return None
    first, *_ = module[len(inside) :].split(".")
    if not first or first == "__init__" or first[0] == "_":
        return folder
    is_package = (ROOT / folder / first).is_dir()
    is_module = (ROOT / folder / f"{first}.py").is_file()
    return first if is_package else LEAVES if is_module else folder


def graph_of(files: Iterable[tuple[str, str]], folder: str) -> Graph:
    """Which packages of a folder import which."""
    found: Graph = {}
    for file, source in files:
        module = ".".join(Path(file).with_suffix("").parts)
        own = room(module, folder)
        assert own is not None
        reached = (room(name, folder) for name in imports(ast.parse(source)))
        found.setdefault(own, set()).update(r for r in reached if r not in (None, own))
    return found


def table(text: str, heading: str) -> Graph:
    """The packages of a table, and what its last column says that they import."""
    part = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|.*\|([^|]*)\|$", part, re.MULTILINE)
    return {name.removesuffix("/"): set(re.findall("`([^`]+)`", last)) for name, last in rows}


@pytest.mark.parametrize(
    ("folder", "heading"), [("esg", "Where things are"), ("esg/core", "Rooms of the core")]
)
def test_the_table_in_contributing_is_the_package_graph(folder: str, heading: str) -> None:
    written = table((ROOT / "CONTRIBUTING.md").read_text("utf-8"), heading)
    found = graph_of(sources(folder), folder)
    assert {name: sorted(known) for name, known in sorted(written.items())} == {
        name: sorted(known) for name, known in sorted(found.items())
    }
    list(TopologicalSorter(found).static_order())  # raises if there is a cycle


def test_modules_are_not_imported_by_their_names_in_the_checkout() -> None:
    found = [
        f"{file} imports {name}"
        for file, source in (*sources("esg"), *sources("tests"), *sources("benchmarks"))
        for name in imports(ast.parse(source))
        if name.split(".")[0] in OLD_NAMES
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "from esg.gateway.requests import Desk",
        "import esg.gateway.requests",
        "from esg import gateway",
        "def later():\n    from esg.gateway import requests",
        "if TYPE_CHECKING:\n    from esg.gateway.requests import Desk",
    ],
)
def test_an_import_in_the_graph_is_seen_wherever_it_stands(source: str) -> None:
    assert graph_of([("esg/storage/x.py", source)], "esg") == {"storage": {"gateway"}}


def test_a_cycle_in_the_graph_is_found() -> None:
    files = [("esg/cli/x.py", "import esg.loadgen.main"), ("esg/loadgen/y.py", "import esg.cli")]
    with pytest.raises(CycleError):
        list(TopologicalSorter(graph_of(files, "esg")).static_order())
