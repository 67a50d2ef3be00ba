"""Small trace files, written for one test."""

from collections.abc import Callable
from pathlib import Path

import pytest

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
