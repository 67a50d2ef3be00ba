"""Options that several commands share, and the checks of their values."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from esg.core.catalog.phases import TaskMode
from esg.errors import Rejected
from esg.version import __version__

MOST_DAYS = 36_525
"""A century; calendars end some time after."""


def at_least(
    minimum: int, *, at_most: int | None = None
) -> Callable[[typer.CallbackParam, int | None], int | None]:
    """A check that a whole number is not too small, nor larger than anybody can mean."""

    def check(param: typer.CallbackParam, value: int | None) -> int | None:
        if value is not None and value < minimum:
            raise Rejected(f"{param.opts[0]} is {value}; it must be at least {minimum}")
        if value is not None and at_most is not None and value > at_most:
            raise Rejected(f"{param.opts[0]} is {value}; it must be at most {at_most}")
        return value

    return check


def above_zero(maximum: int) -> Callable[[typer.CallbackParam, float | None], float | None]:
    """A check that a number is positive, not too large, and a number at all."""

    def check(param: typer.CallbackParam, value: float | None) -> float | None:
        if value is not None and not 0 < value <= maximum:
            raise Rejected(
                f"{param.opts[0]} is {value:g}; it must be greater than 0 and at most {maximum}"
            )
        return value

    return check


def from_zero(maximum: int) -> Callable[[typer.CallbackParam, float | None], float | None]:
    """A check that a number is zero or positive, not too large, and a number at all."""

    def check(param: typer.CallbackParam, value: float | None) -> float | None:
        if value is not None and not 0 <= value <= maximum:
            raise Rejected(f"{param.opts[0]} is {value:g}; it must be from 0 to {maximum}")
        return value

    return check


def given_share(option: str, text: str) -> float:
    """The share that an option gives, as a percentage or a fraction.

    >>> given_share("--hit-rate", "99.5%"), given_share("--hit-rate", "0.9")
    (0.995, 0.9)
    """
    found = re.fullmatch(r"(\d+|\d*\.\d+)\s*(%?)", text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < share <= 1:
        raise Rejected(f"{option}: {text!r} is no share; give one up to 100%, as in 99% or 0.99")
    return share


RunDir = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        envvar="ESG_DIR",
        show_default="$XDG_RUNTIME_DIR/esg, or /tmp/esg-UID",
        help="The mesh's directory: logs, journal, process records.",
    ),
]

Gateway = Annotated[
    str,
    typer.Option(
        "--gateway",
        metavar="ADDRESS",
        envvar="ESG_GATEWAY",
        help="Address of the mesh's gateway, as host:port; of several gateways, with commas.",
    ),
]


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{context.find_root().info_name} {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]

TASKS_HELP = (
    "What tasks hold: all of it to their end, as in the paper (joint), or slices for their GPU "
    "part only (phased)."
)


Tasks = Annotated[TaskMode, typer.Option(help=TASKS_HELP)]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
