"""What is demonstrated, and what comes of it.

The picture that is sent, demo.png beside this file, was drawn for it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from esg.client import Result
from esg.core.catalog.model import Catalog
from esg.loadgen.outcome import LoadOutcome
from esg.workload.arrivals import Arrival
from esg.workload.rates import Rate

PICTURE = Path(__file__).with_name("demo.png")
VCPUS, VGPUS = 16, 7
PAYLOAD_SCALE = 0.02
"""Emulated outputs are so much smaller than real ones, so that two cores can move them all."""


@dataclass(slots=True)
class DemoLoad:
    """What came of the load, with the transfers between stages, by application."""

    outcome: LoadOutcome = field(default_factory=LoadOutcome)
    verified: int = 0
    local: Counter[str] = field(default_factory=Counter)
    remote: Counter[str] = field(default_factory=Counter)
    cold_starts: int = 0


@dataclass(slots=True)
class DemoFindings:
    """What came of a demonstration."""

    processes: list[str] = field(default_factory=list)
    up_s: float = 0.0
    pictures: list[tuple[Result, bool]] = field(default_factory=list)
    """Each with whether it is right."""
    served: DemoLoad = field(default_factory=DemoLoad)
    whole_s: float = 0.0

    @property
    def all_right(self) -> bool:
        pictures_right = all(right for _, right in self.pictures)
        return pictures_right and self.served.verified == self.served.outcome.total.requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What is demonstrated: the catalog's applications on so many nodes, under this load."""

    catalog: Catalog
    nodes: int
    rate: Rate
    seconds: float
    arrivals: Sequence[Arrival]
