"""Every command that README and docs print can be typed: its name and its options are there."""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from esg.cli import program as cli_program
from esg.loadgen import program as loadgen_program
from tests.component.cli.conftest import Run
from tests.support.examples import commands, pages, programs
from tests.support.paths import ROOT

EXAMPLES = [
    pytest.param(arguments, id=f"{page.name}: {' '.join(arguments)}")
    for page in pages()
    for arguments in commands(page)
]

MADE = {"deploy/prometheus/nodes.json"}
"""What readers are told to write."""


def parse(arguments: list[str]) -> None:
    """Parse a command line down to its last command, and run nothing."""
    name, *rest = arguments
    command: Any = cli_program.app if name == "esg" else loadgen_program.app
    context: Any = None
    while True:
        context = command.make_context(name, list(rest), parent=context)
        command = context.command  # of a lazy one, what it has loaded
        if not isinstance(command, TyperGroup):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            return  # a group that does something by itself
        name, command, rest = command.resolve_command(context, rest)


@pytest.mark.parametrize("arguments", EXAMPLES)
def test_an_example_command_can_be_typed(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    parse(arguments)


def test_docs_have_examples_of_commands() -> None:
    assert len(EXAMPLES) > 40


def test_an_option_that_is_not_there_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["esg", "emulate", "--no-such-option"])


@pytest.mark.parametrize("page", [*pages(), ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_the_names_that_example_programs_import_from_esg_are_there(page: Path) -> None:
    for program in programs(page):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "esg":
                module = import_module(node.module or "")
                assert [n.name for n in node.names if not hasattr(module, n.name)] == []


@pytest.mark.parametrize(
    "page", [*pages(), *(ROOT / "docs" / "adr").glob("*.md"), ROOT / "CONTRIBUTING.md"], ids=str
)
def test_the_files_that_the_docs_name_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    named = re.findall(
        r"`((?:esg|gateway|controller|invoker|storage|loadgen|protos|tests|benchmarks|deploy|docs)/[\w/.-]+)",
        text,
    )
    missing = [name for name in named if not (ROOT / name).exists() and name not in MADE]
    assert missing == []


@pytest.mark.parametrize("arguments", list(commands(ROOT / "docs" / "planning.md")), ids=" ".join)
def test_a_command_of_the_page_about_planning_runs(
    arguments: list[str], esg: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert esg(*arguments[1:]).code == 0
