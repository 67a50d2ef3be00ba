"""The `esg` command as typer has it: its help, and its sub-commands by name and summary."""

import typer
from typer.core import TyperGroup

from esg.cli.main import COMMANDS
from esg.console.lazy import LazyCommand
from esg.console.options import Version

_typer = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@_typer.callback()
def esg(version: Version = False) -> None:
    """ESG serves pipelines of DNN models on shared GPUs, each in time and at the least cost.

    \b
    Start here:
      esg demo                                      a mesh at work, for a minute
      esg apps                                      applications and functions
      esg plan image-classification --slo-ms 526    the cheapest configs, and why
      esg profile show segmentation                 time and cost of a function
      esg profile --slices cpu:2 --quick            measure functions here
      esg emulate --policy esg,orion,infless        compare policies
      esg up                                        a whole mesh on this machine
      esg submit image-classification photo.jpg     send it a request
      esg top                                       watch a mesh
    """


def _group() -> TyperGroup:
    group = typer.main.get_command(_typer)
    assert isinstance(group, TyperGroup)
    for name, (target, extra, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"esg.cli.{target}", summary, extra))
    return group


app = _group()
