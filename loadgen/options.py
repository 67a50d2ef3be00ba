"""The options of the `loadgen` command, in the order of its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from esg.console.options import above_zero, at_least, from_zero
from esg.errors import Rejected
from esg.workload.plan import Workload

LONGEST_S = 31_536_000
"""A year, at most: the largest number of seconds anybody can mean."""
LARGEST_SCALE = 1_000_000
LARGEST_PAYLOAD_SCALE = 1_000

Rate = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        show_default=False,
        help="Request rate: heavy, normal, light, or as in 120/s and 30/min.",
    ),
]
Poisson = Annotated[bool, typer.Option("--poisson", help="Poisson arrivals at that average rate.")]
Burst = Annotated[
    bool,
    typer.Option("--burst", help="In bursts of a second, five times as dense, and 4 s silence."),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        show_default=False,
        help="Requests as a trace says; with --rate, its mean is scaled to that.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        show_default="auto",
        help="The trace's: auto, azure2019, azure2021, timestamps or counts.",
    ),
]
Scale = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        callback=above_zero(LARGEST_SCALE),
        show_default="1",
        help="Multiplies the trace's rate.",
    ),
]
StartMinute = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=at_least(0),
        show_default="0",
        help="Where in the trace to begin, from its start.",
    ),
]
InMinute = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        show_default="uniform, or as recorded",
        help="Where in its minute a call falls: even, uniform or poisson.",
    ),
]
SavedArrivals = Annotated[
    Path | None,
    typer.Option(
        "--arrivals",
        metavar="FILE",
        show_default=False,
        help="Exactly what --save-arrivals wrote.",
    ),
]
Requests = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=at_least(1),
        show_default="1000 at a rate, else all",
        help="Stop after so many requests.",
    ),
]
Duration = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        callback=above_zero(LONGEST_S),
        show_default=False,
        help="Stop after so long instead.",
    ),
]
MixOfApplications = Annotated[
    str | None,
    typer.Option(
        "--mix",
        metavar="NAME=WEIGHT,...",
        show_default="all alike",
        help="Applications by weight.",
    ),
]
ByFunction = Annotated[
    bool,
    typer.Option(
        "--by-function", help="A function of the trace always stands for the same application."
    ),
]
Seed = Annotated[int, typer.Option(metavar="S", help="The same seed gives the same arrivals.")]
SaveArrivals = Annotated[
    Path | None,
    typer.Option(metavar="FILE", show_default=False, help="Write them as CSV: at_us,application."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Sum the arrivals up, send nothing.")]
PayloadFolder = Annotated[
    Path | None,
    typer.Option(
        "--payload",
        metavar="DIR",
        show_default="generated",
        help="Pictures to send, in turn.",
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
Workers = Annotated[
    int, typer.Option(metavar="N", callback=at_least(1), help="Processes that send.")
]
WaitS = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        callback=from_zero(LONGEST_S),
        help="How long the last answers may take, after the last request.",
    ),
]
MaxErrorRate = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        callback=from_zero(1),
        help="The exit code is 1 if a larger share of requests fails.",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """The requests to send. Every field is an option, in the order of the help."""

    rate: Rate = None
    poisson: Poisson = False
    burst: Burst = False
    trace: TraceFile = None
    format: Format = None
    scale: Scale = None
    start_minute: StartMinute = None
    in_minute: InMinute = None
    by_function: ByFunction = False
    arrivals: SavedArrivals = None
    mix: MixOfApplications = None
    requests: Requests = None
    duration: Duration = None
    seed: Seed = 0

    def workload(self) -> Workload:
        """The workload that the options ask for."""
        if self.poisson and self.burst:
            raise Rejected("--poisson and --burst are two ways to come; give one of them")
        return Workload(
            rate=self.rate,
            pattern="poisson" if self.poisson else "burst" if self.burst else "steady",
            trace=self.trace,
            format=self.format,
            scale=self.scale,
            start_minute=self.start_minute,
            in_minute=self.in_minute,
            by_function=self.by_function,
            saved=self.arrivals,
            mix=self.mix,
            requests=self.requests,
            duration_s=self.duration,
            seed=self.seed,
        )
