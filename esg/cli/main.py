"""The `esg` command: a table of its sub-commands, each of which is imported when it is used."""

from typing import Annotated

import typer

from esg.console.entry import run_app
from esg.console.lazy import LazyCommand
from esg.version import __version__

COMMANDS = {
    "apps": (
        "requests.apps_command:app",
        "",
        "Show applications; add, update and remove those of a mesh.",
    ),
    "plan": ("explain.plan:plan", "core", "Find the cheapest configs that keep a deadline."),
    "demo": ("demo.command:demo", "all", "See a whole mesh at work, for a minute."),
    "emulate": (
        "evaluation.emulate:emulate",
        "evaluation",
        "Compare policies on the same requests, in virtual time.",
    ),
    "capacity": (
        "evaluation.capacity:capacity",
        "evaluation",
        "Find the highest rate at which requests are in time.",
    ),
    "replay": (
        "evaluation.history:replay",
        "evaluation",
        "Check that a journal's events lead to its orders.",
    ),
    "what-if": (
        "evaluation.history:what_if",
        "evaluation",
        "Send a journal's requests again, under other conditions.",
    ),
    "journal": (
        "evaluation.journal:app",
        "evaluation",
        "Check that a journal is as it was written.",
    ),
    "train": (
        "evaluation.training:train",
        "evaluation",
        "Learn what policy aquatope needs, into a file.",
    ),
    "reproduce": (
        "evaluation.reproduce:reproduce",
        "evaluation",
        "Do the paper's evaluation again: which claims hold?",
    ),
    "up": ("bringup.up:up", "mesh", "Start a whole mesh on this machine."),
    "status": (
        "bringup.status:status",
        "mesh",
        "Show the processes of a mesh that esg up started.",
    ),
    "top": ("requests.top:top", "", "Watch a mesh: its applications, queues, nodes and slices."),
    "logs": ("bringup.logs:logs", "mesh", "Show the logs of a mesh that esg up started."),
    "down": ("bringup.down:down", "mesh", "Stop a mesh, and wait until it is gone."),
    "submit": ("requests.submit:submit", "", "Run files through an application of a live mesh."),
    "get": ("requests.get:get", "", "Show what has become of a request."),
    "cancel": ("requests.get:cancel", "", "Cancel a request, if it has not ended yet."),
    "certificates": (
        "access.certificates:certificates",
        "mesh",
        "Make an authority of your own, and certificates.",
    ),
    "secrets": (
        "access.secrets:secrets",
        "mesh",
        "Make certificates and tokens for a mesh in containers.",
    ),
    "compose": (
        "bringup.compose:compose",
        "triton",
        "Tell docker compose about this host's MIG instances.",
    ),
    "profile": ("profile.command:app", "triton", "Measure functions, or look at their profiles."),
    "models": ("bringup.models:app", "triton", "Install what runs models on slices without a GPU."),
    "tokens": ("access.tokens:app", "mesh", "Say who may call a gateway, and how much."),
}
"""By name: where it is in `esg.cli`, the extra that has all it needs, and a summary."""

_typer = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"esg {__version__}")
        raise typer.Exit


@_typer.callback()
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


app = typer.main.get_group(_typer)
for _name, (_target, _extra, _summary) in COMMANDS.items():
    app.add_command(LazyCommand(_name, f"esg.cli.{_target}", _summary, _extra))


def run() -> int:
    return run_app(app, "esg")
