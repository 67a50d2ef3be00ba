"""`esg profile`: measure functions, and look at their profiles."""

from pathlib import Path
from typing import Annotated

import typer

from esg.cli.profile.compare import compare
from esg.cli.profile.drift import drift
from esg.cli.profile.importing import import_tables
from esg.cli.profile.measure import Wanted, measure
from esg.cli.profile.show import show
from esg.console.catalog import CatalogFile
from esg.console.options import AsJson
from esg.errors import Rejected

app = typer.Typer(rich_markup_mode=None)
app.command()(show)
app.command(short_help="Show where the profiles of two catalogs differ.")(compare)
app.command("import", short_help="Make a profile of tables of Triton's own tools.")(import_tables)
app.command(short_help="Compare measured task times with the profiles.")(drift)

MOST = 10_000


def numbers(text: str | None, option: str) -> list[int] | None:
    """Of a list such as 1,2,4."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= MOST for part in parts):
        raise Rejected(f"{option} is {text!r}; it must be numbers from 1 on, as in 1,2,4")
    return [int(part) for part in parts]


@app.callback(invoke_without_command=True)
def profile(
    context: typer.Context,
    slices: Annotated[
        str | None,
        typer.Option(
            metavar="SLICES",
            show_default=False,
            help="What to measure on: cpu:N, mig, gpu, auto (this machine's GPUs), emulated:N, or "
            "Triton servers at host:port,...",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer configs, and fewer runs of each.")
    ] = False,
    functions: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", show_default="all", help="Only these functions."),
    ] = None,
    batches: Annotated[
        str | None,
        typer.Option(metavar="N,...", show_default="1,2,4,8", help="Jobs per task."),
    ] = None,
    vcpus: Annotated[
        str | None,
        typer.Option(
            metavar="N,...", show_default="1,2,4,... up to all", help="vCPUs for the CPU part."
        ),
    ] = None,
    vgpus: Annotated[
        str | None,
        typer.Option(metavar="N,...", show_default="1,2,4,... up to all", help="Slices per task."),
    ] = None,
    payload: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default="a generated picture", help="Input for first stages."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where profiles and catalog are written.")
    ] = Path("measured"),
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard earlier measurements.")
    ] = False,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure functions on this machine's slices, or show their profiles.

    With --slices every function is run on a node of this machine, config by config: how long tasks
    take, how much of it on the slices, and how much after that. DIR gets a profile of each, and a
    catalog that esg plan, emulate and up accept as it is. Interrupt it at any time; the same
    command resumes.

    \b
    Examples:
      esg profile --slices cpu:2 --quick
      esg profile --slices cpu:2 --functions classification --batches 1,2
      esg profile --slices cpu:2 --payload photo.jpg
      esg plan --catalog measured/catalog.toml
      esg profile show segmentation
      esg profile compare measured/catalog.toml other/catalog.toml
      esg profile import 1=b1.csv 4=b4.csv --function segmentation
      esg profile drift
    """
    if context.invoked_subcommand is not None:
        return
    if slices is None:
        typer.echo(context.get_help())
        return

    measure(
        Wanted(
            slices=slices,
            quick=quick,
            functions=None if functions is None else [n.strip() for n in functions.split(",")],
            batches=numbers(batches, "--batches"),
            vcpus=numbers(vcpus, "--vcpus"),
            vgpus=numbers(vgpus, "--vgpus"),
            payload=payload,
            out=out,
            restart=restart,
            catalog=catalog,
        ),
        as_json=as_json,
    )
