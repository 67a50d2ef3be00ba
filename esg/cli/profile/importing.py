"""`esg profile import`: profiles from what Triton's own tools have measured."""

from pathlib import Path
from typing import Annotated

import typer

from esg.console.options import AsJson
from esg.console.terminal import print_json, print_line, terminal
from esg.core.catalog.file import load_profile
from esg.core.catalog.profile import Prices
from esg.errors import Rejected
from esg.profiler.imported import ImportedTime, imported_times, merged
from esg.profiler.tables import write_imported


def import_tables(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[BATCH=]FILE...",
            help="CSV of Model Analyzer, or of perf_analyzer -f with the batch size in front.",
        ),
    ],
    function: Annotated[
        str, typer.Option(metavar="NAME", help="The function that the profile is of.")
    ],
    model: Annotated[
        str,
        typer.Option(metavar="NAME", show_default="the only one", help="The model, of several."),
    ] = "",
    vcpus: Annotated[int, typer.Option(min=1, max=10_000, help="vCPUs that it was run with.")] = 1,
    vgpus: Annotated[int, typer.Option(min=1, max=10_000, help="Slices that it was run on.")] = 1,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where NAME.toml and NAME.csv are written.")
    ] = Path("imported"),
    as_json: AsJson = False,
) -> None:
    """Make a profile of what perf_analyzer or Model Analyzer have measured.

    The least loaded row of each batch size counts: what the server computed, or else the latency.
    CPU parts of a function (its handler) are not in it. Name the profile in a catalog then.

    \b
    Examples:
      esg profile import 1=b1.csv 4=b4.csv --function segmentation
      esg profile import metrics.csv --model resnet --function classification
    """
    times = merged(_read(file, model) for file in files)
    if times[0].batch != 1:
        raise Rejected("no batch size 1 is among them; a profile needs it, so measure that, too")
    names = [file.partition("=")[2] or file for file in files]
    path = write_imported(out, function, times, vcpus=vcpus, vgpus=vgpus, files=names)
    load_profile(path, Prices())  # refuses what no catalog would take
    if as_json:
        print_json({"profile": str(path), "times": [time._asdict() for time in times]})
        return
    screen = terminal()
    for time in times:
        print_line(screen, f"batch {time.batch}: {time.time_ms:.3f} ms ({time.column})")
    print_line(screen, f'\n{path} is written; in a catalog: profile = "{path}"')


def _read(file: str, model: str) -> list[ImportedTime]:
    first, equals, rest = file.partition("=")
    batch = int(first) if equals and first.isascii() and first.isdecimal() else None
    path = Path(rest if batch is not None else file)
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Rejected(f"{path}: cannot be read: {why}") from None
    return imported_times(str(path), text, batch=batch, model=model)
