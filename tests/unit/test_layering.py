"""Who may import whom: the brains know no world, and no service knows another.

The checker reads the source, it does not run it; that it can find something is tested too.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NO_CLOCK = {"calendar", "datetime", "sched", "time", "zoneinfo"}
NO_CHANCE = {"random", "secrets", "uuid"}
NO_OTHERS = {"asyncio", "concurrent", "multiprocessing", "queue", "signal", "threading"}
NO_WORLD = {"http", "io", "logging", "os", "select", "shutil", "socket", "subprocess", "sys"}
NO_WORLD |= {"sqlite3", "ssl", "tempfile", "urllib"}
NO_FOREIGN_CODE = {"ctypes", "importlib", "marshal", "pickle", "runpy", "shelve"}
BANNED = NO_CLOCK | NO_CHANCE | NO_OTHERS | NO_WORLD | NO_FOREIGN_CODE
BANNED_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "hash", "id", "input"}
BANNED_CALLS |= {"print"}
FILES = {"csv", "glob", "open", "pathlib", "tomllib"}

KNOWN = sys.stdlib_module_names | {"esg", "msgspec", "numpy"}
EXCEPTIONS = {"esg/catalog_file.py": FILES, "esg/dominators.py": {"rustworkx"}}

SERVICES = ("controller", "gateway", "invoker", "loadgen")
LIBRARIES = ("client", "emulator", "functions", "mesh", "profiler", "storage")
USE_LOADGEN = ("emulator", "profiler")
"""Its arrivals and its pictures are pure."""


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of all imported modules, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{n.name}" for n in node.names)


def calls(tree: ast.AST) -> Iterator[str]:
    """The names of all functions called by their bare name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def complaints_about_a_brain(file: str, source: str) -> list[str]:
    """What a file of esg/ does that it must not."""
    tree = ast.parse(source)
    allowed = EXCEPTIONS.get(file, set())
    found = [f"imports {name}" for name in imports(tree) if not may_import(name, allowed)]
    bad_calls = (BANNED_CALLS | FILES) - allowed
    found += [f"calls {name}" for name in calls(tree) if name in bad_calls]
    attributes = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    found += ["draws random numbers"] * attributes.count("random")
    return [f"{file} {what}" for what in found]


def may_import(name: str, allowed: set[str]) -> bool:
    top = name.split(".")[0]
    if name.startswith("numpy.random"):
        return False
    return top in allowed or (top in KNOWN and top not in BANNED | FILES)


def complaints_about_a_service(file: str, source: str) -> list[str]:
    own = file.split("/")[0]
    others = [name for name in SERVICES if name != own]
    return [
        f"{file} imports {name}"
        for name in imports(ast.parse(source))
        if name.split(".")[0] in others
    ]


def sources(folder: str) -> Iterator[tuple[str, str]]:
    """The files of a package, by their path from the root. A package may not be there yet."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def test_the_brains_know_no_world() -> None:
    files = list(sources("esg"))
    assert len(files) > 20
    assert [c for file, source in files for c in complaints_about_a_brain(file, source)] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_library_knows_a_service(library: str) -> None:
    files = sources(library)
    known = "loadgen" if library in USE_LOADGEN else ""
    found = [c for file, source in files for c in complaints_about_a_service(file, source)]
    assert [complaint for complaint in found if not known or known not in complaint] == []


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_knows_another(service: str) -> None:
    files = sources(service)
    assert [c for file, source in files for c in complaints_about_a_service(file, source)] == []


@pytest.mark.parametrize(
    ("snippet", "complaint"),
    [
        ("import time", "imports time"),
        ("from datetime import datetime", "imports datetime.datetime"),
        ("import os.path", "imports os.path"),
        ("def later():\n    import asyncio", "imports asyncio"),
        ("try:\n    import logging\nexcept ImportError:\n    pass", "imports logging"),
        ("from random import Random", "imports random.Random"),
        ("import numpy.random", "imports numpy.random"),
        ("import numpy as np\nnp.random.default_rng()", "draws random numbers"),
        ("from numpy import random", "imports numpy.random"),
        ("import pathlib", "imports pathlib"),
        ("open('x').read()", "calls open"),
        ("__import__('time')", "calls __import__"),
        ("eval('1')", "calls eval"),
        ("import pickle", "imports pickle"),
        ("import rustworkx as rx", "imports rustworkx"),
        ("import networkx", "imports networkx"),
        ("from emulator.world import World", "imports emulator.world.World"),
        ("import loadgen.arrivals", "imports loadgen.arrivals"),
        ("from cli import main", "imports cli.main"),
        ("from .. import gateway", "imports ...gateway"),
    ],
)
def test_a_brain_that_knows_the_world_is_caught(snippet: str, complaint: str) -> None:
    assert complaints_about_a_brain("esg/bad.py", snippet) == [f"esg/bad.py {complaint}"]


def test_a_brain_that_behaves_is_not_caught() -> None:
    assert complaints_about_a_brain("esg/good.py", "import json\nimport numpy as np") == []
    assert complaints_about_a_brain("esg/catalog_file.py", "import csv\nopen('x')") == []


def test_a_service_that_knows_another_is_caught() -> None:
    snippet = "import loadgen.arrivals\nfrom gateway.auth import check\nfrom esg.pool import Pool"
    caught = ["gateway/door.py imports loadgen.arrivals"]
    assert complaints_about_a_service("gateway/door.py", snippet) == caught
