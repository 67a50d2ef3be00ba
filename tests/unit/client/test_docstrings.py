"""What autocompletion shows: docstrings of the client's methods, and words beside every field.

Editors read sources and run nothing, so the sources are what is looked at.
"""

import ast
import inspect
from collections.abc import Iterator

import pytest

from esg import client
from esg.client import aio, applications, credentials, results, status, stream, sync

CALLED = (client.AsyncClient, client.Client, client.RequestStream, client.SyncRequestStream)
MODULES = (aio, applications, credentials, results, status, stream, sync)


def public_classes() -> Iterator[ast.ClassDef]:
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef) and node.name in client.__all__:
                yield node


CLASSES = list(public_classes())


def public_methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name[0] != "_":
            yield method


def parameters(method: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    own = method.args
    return [a.arg for a in (*own.posonlyargs, *own.args, *own.kwonlyargs) if a.arg != "self"]


@pytest.mark.parametrize("node", CLASSES, ids=lambda node: node.name)
def test_every_public_class_and_method_has_a_docstring(node: ast.ClassDef) -> None:
    assert ast.get_docstring(node)
    bare = [method.name for method in public_methods(node) if not ast.get_docstring(method)]
    assert bare == []


@pytest.mark.parametrize("node", CLASSES, ids=lambda node: node.name)
def test_every_field_has_words_beside_it(node: ast.ClassDef) -> None:
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    following = dict(zip(node.body, node.body[1:], strict=False))
    bare = []
    for field in fields:
        after = following.get(field)
        told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if not told:
            bare.append(ast.unparse(field.target))
    assert bare == []


@pytest.mark.parametrize(
    "node",
    [node for node in CLASSES if node.name in {kind.__name__ for kind in CALLED}],
    ids=lambda node: node.name,
)
def test_every_parameter_of_a_call_is_explained(node: ast.ClassDef) -> None:
    silent = [
        f"{method.name}({parameter})"
        for method in public_methods(node)
        for parameter in parameters(method)
        if f"{parameter}: " not in (ast.get_docstring(method) or "")
    ]
    assert silent == []


def explained(kind: type) -> dict[str, str]:
    """The public methods of a class, and what their docstrings say."""
    return {
        name: inspect.getdoc(method) or ""
        for name, method in vars(kind).items()
        if name[0] != "_" and inspect.isfunction(method)
    }


@pytest.mark.parametrize(
    ("waits", "is_awaited"),
    [
        (client.Client, client.AsyncClient),
        (client.SyncRequestStream, client.RequestStream),
    ],
)
def test_both_clients_have_the_same_methods_parameters_and_docstrings(
    waits: type, is_awaited: type
) -> None:
    assert explained(waits) == explained(is_awaited)
    for name in ("__init__", *explained(waits)) if waits is client.Client else explained(waits):
        one, other = (inspect.signature(getattr(kind, name)) for kind in (waits, is_awaited))
        assert list(one.parameters.values()) == list(other.parameters.values()), name
