"""The `esg` command: its sub-commands, wired."""

from typing import Annotated

import typer

from esg.cli.access.certificates import certificates
from esg.cli.access.secrets import secrets
from esg.cli.access.tokens import app as tokens_app
from esg.cli.bringup import models
from esg.cli.bringup.compose import compose
from esg.cli.bringup.down import down
from esg.cli.bringup.status import status
from esg.cli.bringup.up import up
from esg.cli.demo.command import demo
from esg.cli.evaluation.emulate import emulate
from esg.cli.evaluation.history import replay, what_if
from esg.cli.evaluation.reproduce import reproduce
from esg.cli.evaluation.training import train
from esg.cli.explain.plan import plan
from esg.cli.profile import command as profile
from esg.cli.requests.apps import apps
from esg.cli.requests.get import cancel, get
from esg.cli.requests.submit import submit
from esg.cli.requests.top import top
from esg.console.entry import run_app

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
        from esg.version import __version__

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
