"""`esg models`: the environment in which Triton runs models on CPU slices."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Annotated

import typer

from esg.console.terminal import terminal
from esg.errors import Fault, Rejected
from esg.functions.networks.trained import every_weights
from esg.functions.weights import fetch
from esg.invoker.triton.install import REQUIREMENTS, default_home, in_environment

app = typer.Typer(rich_markup_mode=None)

NEWEST_PYTHON = (3, 12)
"""The newest for which there is a numpy that Triton's Python backend understands."""


@app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """The environment in which Triton runs models on slices without a GPU."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(short_help="Download a Triton server and what its models need.")
def install(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", show_default="where esg up looks", help="Where to create it."
        ),
    ] = None,
    weights: Annotated[
        bool,
        typer.Option("--weights/--no-weights", help="Whether to fetch trained weights as well."),
    ] = True,
) -> None:
    """Create a virtual environment with a Triton server and what models on CPU slices need.

    It is separate from ESG's own because models need another numpy. About 120 MB are downloaded,
    with pinned versions and hashes, and 100 MB more for trained weights, which are extracted from
    third-party packages under their own licences. An earlier environment is replaced.

    \b
    Examples:
      esg models install
      esg models install --dir ./models
      ESG_INVOKER_TRITON=./models esg up --slices cpu:2
    """
    if sys.version_info[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        raise Rejected(
            f"this is Python {sys.version_info.major}.{sys.version_info.minor}, and Triton's "
            f"models need {newest} or older; install ESG with Python {newest}"
        )
    home = (directory or default_home()).absolute()
    if home.exists() and not (home / "pyvenv.cfg").is_file():
        raise Rejected(f"{home}: something else is there; name another directory with --dir")
    terminal().print(f"Making {home} (about 120 MB to fetch)", soft_wrap=True)
    venv.create(home, with_pip=True, clear=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    options = ["--disable-pip-version-check", "--no-deps", "--require-hashes", "--requirement"]
    code = subprocess.run([*pip, *options, str(REQUIREMENTS)], check=False).returncode
    if code:
        typer.echo(f"error: pip ended with exit code {code}; it says why above", err=True)
        raise typer.Exit(1)
    found = in_environment(home)
    terminal().print(f"Triton is in {found.server}", soft_wrap=True)
    if weights:
        terminal().print("Fetching trained weights (about 100 MB)")
        try:
            fetched = fetch(home, every_weights().values())
        except Fault as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None
        for one in fetched:
            terminal().print(f"{one.network}, licence: {one.licence}", soft_wrap=True)
