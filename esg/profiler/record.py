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
from esg.core.messages.codec import decode, encode
from esg.errors import Rejected
from esg.files import written

FILE = "measured.json"
FORMAT = 1
NORMAL = 1.4826
"""What the median distance from the middle is to be multiplied with to give a standard deviation,
if distances are normal."""

OUT_OF_MEMORY = ("out of memory", "cannot allocate memory", "bad_alloc", "memoryerror")
"""How CUDA, the kernel, C++ and Python say it."""


@dataclass(slots=True)
class Cell:
    """One config: what its runs took, or why it cannot be run."""

    config: Config
    runs_us: list[int] = field(default_factory=list)
    failure: str = ""

    @property
    def out_of_memory(self) -> bool:
        return any(words in self.failure.lower() for words in OUT_OF_MEMORY)

    @property
    def time_us(self) -> int:
        return round(median(self.runs_us))

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

        >>> cells = [Cell(Config(1, 1, 1), [100, 102, 98]), Cell(Config(2, 1, 1), [100, 900, 102])]
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
