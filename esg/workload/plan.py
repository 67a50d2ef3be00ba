"""A workload, as a description: which requests come, from where, and where they end.

A description rather than a list, so that a day of requests is cheap to hand to another process, and
every process that is given the same one works the same arrivals out.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from esg.errors import Rejected
from esg.units import US_PER_S, seconds
from esg.workload.arrivals import Arrival, until
from esg.workload.mix import Mix, parse_mix
from esg.workload.rates import bursts, parse_rate, poisson, share_of, steady
from esg.workload.saved import read_arrivals
from esg.workload.trace_window import Shaping, extent, from_trace
from esg.workload.traces.read import Trace, read_trace

PATTERNS = {"steady": steady, "poisson": poisson, "burst": bursts}

DEFAULT_REQUESTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How many requests come at most, and for how long."""

    requests: float = math.inf
    duration_s: float = math.inf

    def share(self, count: int, at_us: int) -> float:
        """How much is over when so many have come, the last one at this instant.

        >>> Extent(requests=8, duration_s=2).share(4, 500_000)
        0.5
        """
        duration_us = max(1, self.duration_s * US_PER_S)
        return min(1.0, max(count / max(1, self.requests), at_us / duration_us))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Arrivals at a `rate`, out of a `trace` (scaled to the rate if both are given), or `saved`.

    `pattern` is how they come at a rate alone; `scale` to `by_function` are a trace's (see
    `Shaping`); `mix` is for both (see `parse_mix`). It ends after so many `requests` or so long,
    and where the trace or the file ends.
    """

    rate: str | None = None
    pattern: str = "steady"
    trace: Path | None = None
    format: str | None = None
    scale: float | None = None
    start_minute: int | None = None
    in_minute: str | None = None
    by_function: bool = False
    saved: Path | None = None
    mix: str | None = None
    requests: int | None = None
    duration_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rate is None and self.trace is None and self.saved is None:
            raise Rejected(
                "nothing says when requests come; give --rate light, --trace FILE or "
                "--arrivals FILE"
            )
        if self.rate is not None and self.share is None:
            parse_rate(self.rate)
        if self.requests is not None and self.duration_s is not None:
            raise Rejected("--requests and --duration are two ways to stop; give one of them")
        if self.saved is not None:
            self._check_saved()
        if self.trace is None:
            self._check_no_trace()
        elif self.pattern != "steady":
            raise Rejected(
                f"--{self.pattern} and --trace both say how requests come; give one of them "
                "(--in-minute poisson is for traces)"
            )

    def _check_saved(self) -> None:
        others = {
            "--rate": self.rate is not None,
            "--trace": self.trace is not None,
            "--mix": self.mix is not None,
            "--poisson": self.pattern == "poisson",
            "--burst": self.pattern == "burst",
        }
        for option, given in others.items():
            if given:
                raise Rejected(f"--arrivals are sent as they are; leave {option} out")

    def _check_no_trace(self) -> None:
        others = {
            "--format": self.format,
            "--scale": self.scale,
            "--start-minute": self.start_minute,
            "--in-minute": self.in_minute,
            "--by-function": self.by_function or None,
        }
        for option, value in others.items():
            if value is not None:
                raise Rejected(f"{option} is about a trace; name one with --trace, or leave it out")

    @property
    def share(self) -> float | None:
        """The share of what a mesh can carry, if the rate is given as one: what comes then is not
        known before it is (`at`)."""
        return None if self.rate is None else share_of(self.rate)

    def at(self, per_s: float) -> "Workload":
        """The same at another rate, in three digits.

        >>> Workload(rate="80%").at(90.7393).rate, Workload(rate="80%").at(1234.5).rate
        ('90.7/s', '1230/s')
        """
        return replace(self, rate=f"{float(f'{per_s:.3g}'):f}".rstrip("0").rstrip(".") + "/s")

    def mean_per_s(self) -> float | None:
        """The mean rate, if it is known before all is read."""
        if self.rate is not None:
            return parse_rate(self.rate).mean_per_s
        if self.saved is not None:
            return None
        whole = self.extent()
        return whole.requests / whole.duration_s if 0 < whole.duration_s < math.inf else None

    def weights(self, applications: Sequence[str]) -> dict[str, float]:
        """How often each application comes, relative to the others, as far as the mix tells."""
        mix = self._mix(applications)
        return dict(zip(mix.applications, mix.weights, strict=True))

    def arrivals(self, applications: Sequence[str]) -> Iterator[Arrival]:
        """All of them, in order of time; `applications` are those that there are."""
        source = self._source(applications)
        if self.duration_s is not None:
            source = until(source, seconds(self.duration_s))
        return islice(source, self._most)

    def extent(self) -> Extent:
        """What was asked for, or less if the trace has less. Of saved arrivals it is not known
        before they are read."""
        most = math.inf if self._most is None else self._most
        longest_s = math.inf if self.duration_s is None else self.duration_s
        if self.trace is None:
            return Extent(requests=most, duration_s=longest_s)
        calls, span_s = extent(self._read_trace(self.trace), self._shaping())
        return Extent(requests=min(most, calls), duration_s=min(longest_s, span_s))

    @property
    def _most(self) -> int | None:
        endless = self.trace is None and self.saved is None and self.duration_s is None
        return DEFAULT_REQUESTS if endless and self.requests is None else self.requests

    def _source(self, applications: Sequence[str]) -> Iterator[Arrival]:
        if self.saved is not None:
            return read_arrivals(self.saved, applications)
        mix = self._mix(applications)
        if self.trace is None:
            assert self.rate is not None
            return PATTERNS[self.pattern](self.rate, mix, self.seed)
        return from_trace(self._read_trace(self.trace), mix, self.seed, self._shaping())

    def _mix(self, applications: Sequence[str]) -> Mix:
        if self.mix is None:
            return Mix.uniform(applications)
        return parse_mix(self.mix, applications)

    def _read_trace(self, trace: Path) -> Trace:
        return read_trace(trace, self.format or "auto")

    def _shaping(self) -> Shaping:
        return Shaping(
            scale=1.0 if self.scale is None else self.scale,
            rate=self.rate,
            start_minute=self.start_minute or 0,
            duration_us=None if self.duration_s is None else seconds(self.duration_s),
            in_minute=self.in_minute,
            by_function=self.by_function,
        )

    def text(self) -> str:
        """For the head of a table.

        >>> Workload(rate="heavy", seed=7).text()
        'heavy, seed 7'
        >>> Workload(trace=Path("day.csv"), rate="120/s").text()
        'day.csv scaled to 120/s, seed 0'
        """
        if self.saved is not None:
            return f"arrivals of {self.saved}"
        if self.trace is None:
            kind = "" if self.pattern == "steady" else f", {self.pattern}"
            return f"{self.rate}{kind}, seed {self.seed}"
        scaled = f" scaled to {self.rate}" if self.rate else ""
        times = f" x {self.scale:g}" if self.scale is not None else ""
        return f"{self.trace}{scaled}{times}, seed {self.seed}"

    def document(self) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "pattern": self.pattern if self.trace is None and self.saved is None else None,
            "trace": None if self.trace is None else str(self.trace),
            "arrivals": None if self.saved is None else str(self.saved),
            "seed": self.seed,
        }
