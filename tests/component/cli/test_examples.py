"""Every command that README and docs print can be typed: its name and its options are there."""

from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from esg.cli import main
from esg.loadgen import main as loadgen_main
from tests.support.examples import commands, pages, programs
from tests.support.paths import ROOT

EXAMPLES = [
    pytest.param(arguments, id=f"{page.name}: {' '.join(arguments)}")
    for page in pages()
    for arguments in commands(page)
]


def parse(arguments: list[str]) -> None:
    """Parse a command line down to its last command, and run nothing."""
    name, *rest = arguments
    command: Any = typer.main.get_command(main.app if name == "esg" else loadgen_main.app)
    context: Any = None
    while True:
        context = command.make_context(name, list(rest), parent=context)
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


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_example_programs_are_python(page: Path) -> None:
    for program in programs(page):
        compile(program, page.name, "exec")
