"""The product's source files, and what they import."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT


def sources(package: str) -> Iterator[tuple[str, str]]:
    """The files of a package below esg/, by their path from the root, links followed; without
    generated code."""
    for folder, _, files in os.walk(ROOT / package, followlinks=True):
        for name in sorted(files):
            path = Path(folder, name)
            if path.suffix == ".py" and "_pb2" not in name:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of all that is imported, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{n.name}" for n in node.names)
