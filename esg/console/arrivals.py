"""Options about which requests come, and when: those of `esg emulate` and `loadgen` alike."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from esg.console.options import above_zero, at_least
from esg.errors import Rejected
from esg.workload.plan import DEFAULT_REQUESTS, Workload

LONGEST_S = 31_536_000
"""A year, at most: the largest number of seconds anybody can mean."""
LARGEST_SCALE = 1_000_000
MOST_REQUESTS = 1_000_000_000
"""More than any day has."""

Rate = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        show_default=False,
        help="Request rate: heavy, normal, light, or as in 120/s and 30/min; loadgen also takes a "
        "share of what the mesh can carry, as in 80%.",
    ),
]
Poisson = Annotated[bool, typer.Option("--poisson", help="Poisson arrivals at that average rate.")]
Burst = Annotated[
    bool,
    typer.Option(
        "--burst", help="Bursts of one second at five times the rate, then 4 s of silence."
    ),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        show_default=False,
        help="Replay a trace; with --rate, its mean rate is scaled to that.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        show_default="auto",
        help="Format of the trace: auto, azure2019, azure2021, timestamps or counts.",
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
        help="Minute of the trace to start at.",
    ),
]
InMinute = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        show_default="uniform, or as recorded",
        help="How calls spread within a minute: even, uniform or poisson.",
    ),
]
SavedArrivals = Annotated[
    Path | None,
    typer.Option(
        "--arrivals",
        metavar="FILE",
        show_default=False,
        help="Replay arrivals that loadgen --save-arrivals wrote.",
    ),
]
Requests = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=at_least(1, at_most=MOST_REQUESTS),
        show_default=f"{DEFAULT_REQUESTS} at a rate, else all",
        help="Stop after this many requests.",
    ),
]
Duration = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        callback=above_zero(LONGEST_S),
        show_default=False,
        help="Stop after this many seconds instead.",
    ),
]
MixOfApplications = Annotated[
    str | None,
    typer.Option(
        "--mix",
        metavar="NAME=WEIGHT,...",
        show_default="equal weights",
        help="Applications by weight.",
    ),
]
ByFunction = Annotated[
    bool,
    typer.Option("--by-function", help="Map each function of the trace to one application."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalOptions:
    """The requests that come. Every field is an option, in the order of the help."""

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

    @property
    def nothing_says_when(self) -> bool:
        return self.rate is None and self.trace is None and self.arrivals is None

    def workload(self, seed: int) -> Workload:
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
            seed=seed,
        )
