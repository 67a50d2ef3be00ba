"""Small files of traces and arrivals, written for one test."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from esg.workload.arrivals import Arrival
from esg.workload.saved import saving

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write lines, byte for byte, to a file named `trace.csv` or otherwise, and give its path."""

    def file(*lines: str, name: str = "trace.csv", end: str = "\n", final: bool = True) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((end.join(lines) + (end if final else "")).encode())
        return path

    return file


def save_arrivals(path: Path, arrivals: Iterable[Arrival]) -> None:
    with saving(path) as save:
        for arrival in arrivals:
            save(arrival)
