"""All that was measured so far, as a file beside the tables: whoever stops goes on from there.

It is written anew, whole, after every cell. Every single run is in it, so that what the tables say
can be reckoned again.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from esg.core.catalog.config import Config
from esg.core.catalog.phases import Phases
from esg.core.messages.codec import decode, encode
from esg.errors import Rejected
from esg.files import written

FILE = "measured.json"
FORMAT = 2
NORMAL = 1.4826
"""What the median distance from the middle is to be multiplied with to give a standard deviation,
if distances are normal."""

OUT_OF_MEMORY = ("out of memory", "cannot allocate memory", "bad_alloc", "memoryerror")
"""How CUDA, the kernel, C++ and Python say it."""


@dataclass(slots=True)
class Cell:
    """One config: what its runs took, or why it cannot be run.

    `phased` has the runs in phases, without what they waited in the node; `joint_us` those as a
    joint task, or nothing if that takes as long (see `grid.modes_of`).
    """

    config: Config
    phased: list[Phases] = field(default_factory=list)
    joint_us: list[int] = field(default_factory=list)
    failure: str = ""

    @property
    def out_of_memory(self) -> bool:
        return any(words in self.failure.lower() for words in OUT_OF_MEMORY)

    @property
    def runs_us(self) -> list[int]:
        """What a joint task took, run by run."""
        return self.joint_us or [run.total_us for run in self.phased]

    @property
    def time_us(self) -> int:
        return round(median(self.runs_us))

    @property
    def phases(self) -> Phases:
        """The phases of a joint task that takes `time_us`, each by the median of the runs that tell
        it. Medians of parts need not add up to that of the whole: what is left is the first.

        The last one was timed on one vCPU. A joint task with more has for it what its other phases
        leave, but no less than if all vCPUs had done an equal share.

        >>> Cell(Config(1, 1, 1), [Phases(30, 100, 9), Phases(31, 99, 8), Phases(50, 98, 9)]).phases
        Phases(before_us=31, slices_us=99, after_us=9)
        >>> Cell(Config(2, 2, 1), [Phases(30, 100, 20)], [142]).phases
        Phases(before_us=30, slices_us=100, after_us=12)
        """
        before_us, slices_us, after_us = (median(part) for part in zip(*self.phased, strict=True))
        if self.joint_us:
            left_us = self.time_us - before_us - slices_us
            after_us = min(after_us, max(left_us, after_us / self.config.vcpus))
        on_slices_us = min(round(slices_us), self.time_us)
        afterwards_us = min(round(after_us), self.time_us - on_slices_us)
        return Phases(self.time_us - on_slices_us - afterwards_us, on_slices_us, afterwards_us)

    @property
    def deviations(self) -> list[float]:
        """How far the runs are from the middle one, as shares of it, that one left out."""
        middle = self.time_us
        distances = sorted(abs(run_us - middle) / middle for run_us in self.runs_us)
        return distances[1:]


@dataclass(slots=True)
class FunctionRecord:
    """What is known of one function."""

    input_bytes: int = 0
    cold_starts_us: list[int] = field(default_factory=list)
    memory_mb: int = 0  # 0: not measured
    cells: list[Cell] = field(default_factory=list)

    def cell(self, config: Config) -> Cell | None:
        return next((cell for cell in self.cells if cell.config == config), None)

    @property
    def feasible(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.failure]

    @property
    def relative_std(self) -> float:
        """The spread of runs around what is profiled, by the median distance: a straggler counts
        as one run, however late it was.

        >>> times_us = {Config(1, 1, 1): [100, 102, 98], Config(2, 1, 1): [100, 900, 102]}
        >>> cells = [Cell(config, joint_us=runs) for config, runs in times_us.items()]
        >>> round(FunctionRecord(cells=cells).relative_std, 4)
        0.0297
        """
        deviations = [share for cell in self.feasible for share in cell.deviations]
        return NORMAL * median(deviations) if deviations else 0.0


@dataclass(slots=True)
class ProfileRecord:
    """`conditions` is what must be the same for figures to belong together."""

    conditions: dict[str, str]
    functions: dict[str, FunctionRecord] = field(default_factory=dict)
    format: int = FORMAT

    def of(self, function: str) -> FunctionRecord:
        return self.functions.setdefault(function, FunctionRecord())

    def write(self, folder: Path) -> None:
        with written(folder / FILE) as file:
            json.dump(encode(self), file, indent=1)


def read(folder: Path) -> ProfileRecord | None:
    """The record of a folder, if there is one."""
    path = folder / FILE
    try:
        raw: Any = json.loads(path.read_text("utf-8"))
        if raw.get("format") != FORMAT:
            raise Rejected(f"{path}: of another version of ESG; begin anew with --restart")
        return decode(ProfileRecord, raw)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, Rejected) as error:
        raise Rejected(
            f"{path}: cannot be gone on from: {error}; begin anew with --restart, or name another "
            "folder with --out"
        ) from None


def begun(folder: Path, conditions: dict[str, str], *, restart: bool) -> ProfileRecord:
    """The record to go on with, or a new one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"{folder}: cannot be made: {error.strerror}; name another --out") from None
    known = None if restart else read(folder)
    if known is None:
        return ProfileRecord(conditions)
    for name, value in conditions.items():
        if known.conditions.get(name) != value:
            raise Rejected(
                f"{folder} was measured with {name} {known.conditions.get(name)!r}, not "
                f"{value!r}; name another folder with --out, or begin anew with --restart"
            )
    return known
