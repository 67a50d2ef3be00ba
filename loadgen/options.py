"""The options of the `loadgen` command that are its own, in the order of its help."""

from pathlib import Path
from typing import Annotated

import typer

from esg.console.arrivals import LONGEST_S
from esg.console.options import above_zero, at_least, from_zero
from esg.limits import LONGEST_SLO_MS
from esg.loadgen.target import Protocol

LARGEST_PAYLOAD_SCALE = 1_000

Seed = Annotated[int, typer.Option(metavar="S", help="The same seed gives the same arrivals.")]
SaveArrivals = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", show_default=False, help="Write the arrivals as CSV: at_us,application."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Summarise the arrivals; send nothing.")]
PayloadFolder = Annotated[
    Path | None,
    typer.Option(
        "--payload",
        metavar="DIR",
        show_default="generated",
        help="Folder of pictures to send, in turn.",
    ),
]
PayloadScale = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        callback=from_zero(LARGEST_PAYLOAD_SCALE),
        show_default="0.01",
        help="Size of generated pictures, relative to the catalog's: with 1, the paper's.",
    ),
]
ServerProtocol = Annotated[
    Protocol,
    typer.Option(
        help="What the server speaks: esg, or oip, the Open Inference Protocol, as Triton does."
    ),
]
SloMs = Annotated[
    float | None,
    typer.Option(
        metavar="MS",
        callback=above_zero(LONGEST_SLO_MS),
        show_default="the application's",
        help="Deadline of requests; needed with --protocol oip.",
    ),
]
Workers = Annotated[int, typer.Option(metavar="N", callback=at_least(1), help="Sender processes.")]
WaitS = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        callback=from_zero(LONGEST_S),
        help="How long to wait for answers after the last request.",
    ),
]
MaxErrorRate = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        callback=from_zero(1),
        help="Exit with code 1 if a larger share of requests fails.",
    ),
]
Emulate = Annotated[
    bool,
    typer.Option("--emulate", help="Also emulate the same arrivals, and show both side by side."),
]
CsvFile = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", show_default=False, help="Write one row per request."),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", show_default=False, help="Write a report with plots, as one page."
    ),
]
