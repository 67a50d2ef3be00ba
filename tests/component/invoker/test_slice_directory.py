"""The directory and the shared memory of a node's Triton servers: nothing is left of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from esg.files import MEMORY
from esg.invoker.slices.directory import slice_directory
from esg.invoker.slices.shm.region import SharedRegion

pytestmark = pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason="about shared memory")


def left(token: str) -> list[str]:
    return sorted(file.name for file in MEMORY.glob(f"{token}*"))


def test_slice_directory_goes_with_all_memory_that_has_its_name() -> None:
    with slice_directory() as directory:
        token = directory.path.name
        (directory.path / "models").mkdir()
        region = SharedRegion(f"{directory.memory_name(0)}-1", 100)
        (MEMORY / f"{directory.memory_name(1)}-python-abc").touch()
        assert len(left(token)) == 3
    assert left(token) == []
    region.close()


def test_memory_that_one_server_left_can_be_removed_by_itself() -> None:
    with slice_directory() as directory:
        for index in (1, 12):
            (MEMORY / f"{directory.memory_name(index)}-python-abc").touch()
        directory.clear_memory(1)
        assert left(directory.memory_name(12)) == [f"{directory.memory_name(12)}-python-abc"]
        assert left(f"{directory.memory_name(1)}-") == []


def test_the_next_node_removes_what_one_that_was_killed_left() -> None:
    program = (
        "from esg.invoker.slices.shm.region import SharedRegion\n"
        "from esg.invoker.slices.directory import slice_directory\n"
        "with slice_directory() as directory:\n"
        "    region = SharedRegion(directory.memory_name(0) + '-1', 100)\n"
        "    print(directory.path.name, flush=True)\n"
        "    input()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        token = process.stdout.readline().decode().strip()
        with slice_directory():
            assert len(left(token)) == 2  # its node lives
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(left(token)) == 2
        with slice_directory():
            assert left(token) == []


def test_a_region_that_does_not_fit_is_an_error_and_leaves_nothing() -> None:
    with slice_directory() as directory:
        name = f"{directory.memory_name(0)}-1"
        with pytest.raises(OSError, match=r"space|large|memory"):
            SharedRegion(name, 2**50)
        assert not Path(MEMORY / name).exists()
