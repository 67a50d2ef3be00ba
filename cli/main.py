"""The `esg` command: its sub-commands, wired."""

from typing import Annotated

import typer

from cli import models, profile
from cli.apps import apps
from cli.certificates import certificates
from cli.compose import compose
from cli.demo import demo
from cli.down import down
from cli.emulate import emulate
from cli.entry import run_app
from cli.history import replay, what_if
from cli.plan import plan
from cli.reproduce import reproduce
from cli.requests import cancel, get
from cli.secrets import secrets
from cli.status import status
from cli.submit import submit
from cli.tokens import app as tokens_app
from cli.top import top
from cli.training import train
from cli.up import up

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# A summary of its own where the first sentence of the help is too long for a line of the overview.
app.command()(apps)
app.command()(plan)
app.add_typer(
    profile.app, name="profile", short_help="Measure functions, or look at their profiles."
)
app.command(short_help="See a whole mesh at work, for a minute.")(demo)
app.command()(emulate)
app.command(short_help="Check that a journal's events lead to its orders.")(replay)
app.command()(what_if)
app.command(short_help="Learn what policy aquatope needs, into a file.")(train)
app.command(short_help="Do the paper's evaluation again: which claims hold?")(reproduce)
app.add_typer(
    models.app, name="models", short_help="Install what runs models on slices without a GPU."
)
app.command(short_help="Start a whole mesh on this machine.")(up)
app.command()(status)
app.command(short_help="Watch a mesh: its applications, queues, nodes and slices.")(top)
app.command(short_help="Stop a mesh, and wait until it is gone.")(down)
app.command()(submit)
app.command()(get)
app.command()(cancel)
app.command(short_help="Make an authority of your own, and certificates.")(certificates)
app.command(short_help="Make certificates and tokens for a mesh in containers.")(secrets)
app.command(short_help="Tell docker compose about this host's MIG instances.")(compose)
app.add_typer(tokens_app, name="tokens")


def _print_version(wanted: bool) -> None:
    if wanted:
        from esg import __version__

        typer.echo(f"esg {__version__}")
        raise typer.Exit


@app.callback()
def esg(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """ESG serves pipelines of DNN models on shared GPUs, each in time and at the least cost.

    \b
    Start here:
      esg demo                                      a mesh at work, for a minute
      esg apps                                      what there is to plan for
      esg plan image-classification --slo-ms 526    which configs, and why
      esg profile show segmentation                 what a function takes
      esg profile --slices cpu:2 --quick            measure functions here
      esg emulate --policy esg,orion,infless        policies against each other
      esg up                                        a whole mesh on this machine
      esg submit image-classification photo.jpg     a request to it
      esg top                                       watch a mesh
    """


def run() -> int:
    return run_app(app, "esg")
