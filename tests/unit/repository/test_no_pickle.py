"""Nothing that could choose which code runs is read from a wire or a disk."""

import ast

import pytest

from tests.support.paths import ROOT
from tests.support.sources import imports, sources

RUNS_WHAT_IT_READS = {"cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "pickle", "shelve"}
RESTRICTED = {"esg/functions/networks/torch_file.py"}
"""Reads pickles of weights with a reader that knows four names, none of which runs anything."""

OWN_CHILDREN = {
    "esg/emulator/worker_processes.py",
    "esg/invoker/handlers/worker_processes.py",
    "esg/loadgen/worker_pool.py",
    "esg/loadgen/worker.py",
}
"""Speak through Python's own pipes, which pickle, with processes that they start themselves and
that run the same code for the same user."""


def complaints(file: str, source: str) -> list[str]:
    tree = ast.parse(source)
    modules = {name.partition(".")[0] for name in imports(tree)}
    found = [f"{file} imports {name}" for name in modules & RUNS_WHAT_IT_READS]
    pools = any(
        name.startswith(("multiprocessing.", "concurrent.futures.ProcessPool"))
        for name in imports(tree)
    )
    if pools and file not in OWN_CHILDREN:
        found.append(f"{file} has processes that it speaks to in pickles")
    allowing = [node for node in ast.walk(tree) if isinstance(node, ast.keyword)]
    found += [f"{file} allows pickles" for node in allowing if node.arg == "allow_pickle"]
    return [] if file in RESTRICTED else found


def test_no_file_of_the_product_reads_pickles() -> None:
    found = [c for file, source in sources("esg") for c in complaints(file, source)]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "from concurrent.futures import ProcessPoolExecutor",
        "from multiprocessing import get_context",
    ],
)
def test_the_checker_finds_what_it_looks_for(source: str) -> None:
    assert complaints("esg/runtime/new.py", source)


def test_the_exceptions_are_there() -> None:
    for file in RESTRICTED | OWN_CHILDREN:
        assert (ROOT / file).exists()
