"""The core knows no world: no clock, no chance, no files, no other package but the leaves.

The checker reads the source, it does not run it; that it can find something is tested too.
"""

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.support.sources import imports, sources

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
EXCEPTIONS = {
    "esg/core/catalog/file.py": FILES,  # the one file of the core that reads files
    "esg/core/catalog/measured_table.py": {"csv", "pathlib"},  # of lines that have been read
    "esg/core/catalog/shipped.py": {"pathlib"},  # names files, and reads none
    "esg/core/catalog/dag.py": {"rustworkx"},
    "esg/core/policies/outside.py": {"importlib"},  # policies that users bring
}


def calls(tree: ast.AST) -> Iterator[str]:
    """The names of all functions called by their bare name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def complaints(file: str, source: str) -> list[str]:
    """What a file of the core does that it must not."""
    tree = ast.parse(source)
    allowed = EXCEPTIONS.get(file, set())
    found = [f"imports {name}" for name in imports(tree) if not may_import(name, allowed)]
    bad_calls = (BANNED_CALLS | FILES) - allowed
    found += [f"calls {name}" for name in calls(tree) if name in bad_calls]
    attributes = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    found += ["draws random numbers"] * attributes.count("random")
    return [f"{file} {what}" for what in found]


def may_import(name: str, allowed: set[str]) -> bool:
    """Which packages of esg it may import is for tests/unit/repository/test_package_graph.py."""
    top = name.split(".")[0]
    if name.startswith("numpy.random"):
        return False
    return top in allowed or (top in KNOWN and top not in BANNED | FILES)


def test_the_core_knows_no_world() -> None:
    files = list(sources("esg/core"))
    assert len(files) > 20
    assert [c for file, source in files for c in complaints(file, source)] == []


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
        ("import gateway.requests", "imports gateway.requests"),
        ("from .. import gateway", "imports ...gateway"),
    ],
)
def test_a_file_of_the_core_that_knows_the_world_is_caught(snippet: str, complaint: str) -> None:
    assert complaints("esg/core/bad.py", snippet) == [f"esg/core/bad.py {complaint}"]


def test_a_file_of_the_core_that_behaves_is_not_caught() -> None:
    assert complaints("esg/core/good.py", "import json\nimport numpy as np") == []
    assert complaints("esg/core/catalog/file.py", "import csv\nopen('x')") == []


def test_the_graph_library_is_imported_only_where_a_dag_is_analysed() -> None:
    """Importing it takes as long as the rest of the catalog's own modules."""
    for file, source in sources("esg/core"):
        at_the_top = [one for one in ast.parse(source).body if isinstance(one, ast.Import)]
        assert "rustworkx" not in [alias.name for one in at_the_top for alias in one.names], file
