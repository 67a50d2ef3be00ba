"""A trace that counts calls per minute, and the numbers in such files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from esg.errors import Rejected
from esg.workload.traces.rows import shown

Calls = NDArray[np.int64]
Bucket = Callable[[str], int]

MAX_CALLS = 10**12
MAX_MINUTES = 10 * 366 * 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedTrace:
    """Calls per minute. The file's functions are not kept: there may be any number of them.

    `count(buckets, bucket)` reads the file again and adds up the calls of each minute per bucket of
    functions, so memory is minutes × buckets, whatever the number of functions. It is None where
    the file does not name functions.
    """

    path: Path
    format: str
    calls: Calls
    count: Callable[[int, Bucket], Calls] | None

    @property
    def invocations(self) -> int:
        return int(self.calls.sum())

    @property
    def minutes(self) -> int:
        return len(self.calls)

    @property
    def names_functions(self) -> bool:
        return self.count is not None

    def by_minute(
        self, buckets: int = 1, bucket: Bucket | None = None
    ) -> Iterator[tuple[int, list[int]]]:
        """Minutes with calls, from 0 on, and their calls per bucket."""
        if bucket is None:
            grid = self.calls[np.newaxis]
        else:
            assert self.count is not None
            grid = self.count(buckets, bucket)
        busy = np.flatnonzero(grid.any(axis=0))
        return ((int(minute), grid[:, minute].tolist()) for minute in busy)


def whole(path: Path, line: int, name: str, cell: str) -> int:
    """A number of calls, or of a minute. Nothing is 0; 5.0 is 5, as pandas likes to write it."""
    text = cell.strip() or "0"
    try:
        number = int(text) if text.isdecimal() else float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_CALLS or number != int(number):
        raise Rejected(
            f"{path}:{line}: {name} is {shown(cell)}; give a whole number from 0 to {MAX_CALLS}"
        )
    return int(number)


def check_minute(path: Path, line: int, minute: int) -> int:
    if minute > MAX_MINUTES:
        raise Rejected(
            f"{path}:{line}: minute {minute} is more than ten years away; number from 0 or 1"
        )
    return minute
