"""Arrivals as a CSV file: `at_us,application`, one row per arrival."""

import csv
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from esg.errors import Rejected
from loadgen.arrivals import Arrival


@contextmanager
def saving(path: Path) -> Iterator[Callable[[Arrival], None]]:
    """Give a function that writes one arrival. The file is there when all are, or not at all."""
    # In the same folder, because only within one file system is renaming atomic
    unfinished = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        if path.exists() and not path.is_file():
            raise Rejected(f"{path}: is not a regular file; name another one")
        with unfinished.open("x", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("at_us", "application"))
            yield lambda arrival: rows.writerow((arrival.at_us, arrival.application))
        unfinished.replace(path)
    except OSError as error:
        raise Rejected(
            f"{path}: cannot be written: {error.strerror}; name a file in a folder you can write to"
        ) from None
    finally:
        with suppress(OSError):
            unfinished.unlink()
