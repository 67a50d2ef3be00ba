"""Help, as it is read on a terminal of 80 columns."""

from collections.abc import Iterator

import pytest

from esg.cli import program as cli_program
from esg.console.entry import run_app
from esg.console.lazy import LazyCommand
from esg.loadgen import program as loadgen_program

COLUMNS = 80
SHOWS = ("apps",)
"""Has others, and something to show of its own."""


def commands() -> Iterator[tuple[str, ...]]:
    """All of `esg`, with those that have others in them."""
    ahead: list[tuple[tuple[str, ...], object]] = [((), cli_program.app)]
    while ahead:
        path, command = ahead.pop()
        yield path
        command = command.load() if isinstance(command, LazyCommand) else command
        for name, one in getattr(command, "commands", {}).items():
            ahead.append(((*path, name), one))


def has_commands(path: tuple[str, ...]) -> bool:
    return any(other[:-1] == path for other in commands() if other)


@pytest.mark.parametrize("path", sorted(commands()), ids=" ".join)
def test_help_fits_and_cuts_nothing_short(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(cli_program.app, "esg", [*path, "--help"]) == 0
    check(capsys.readouterr().out)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(commands()) if has_commands(path) and path != SHOWS],
    ids=" ".join,
)
def test_a_command_that_only_has_others_shows_its_help(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(cli_program.app, "esg", [*path]) == 0
    alone = capsys.readouterr()
    assert run_app(cli_program.app, "esg", [*path, "--help"]) == 0
    assert (alone.out.strip(), alone.err) == (capsys.readouterr().out.strip(), "")


def test_so_does_that_of_loadgen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(loadgen_program.app, "loadgen", ["--help"]) == 0
    check(capsys.readouterr().out)


def check(text: str) -> None:
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    assert "\\b" not in text  # what typer takes for its sign before examples is one character
    _, _, summaries = text.partition("\nCommands:\n")
    assert [line for line in summaries.splitlines() if line.endswith("...")] == []
