"""What a machine has, by its own files or a container's limits; and how much of a cluster it can
carry."""

import os
from pathlib import Path

import pytest

from esg.local.machine import Machine, this_machine
from esg.local.paper_cluster import nodes_for, nodes_per_process


def files(folder: Path, **contents: str) -> Path:
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_text(content, "utf-8")
    return folder


def meminfo(folder: Path, mb: int) -> Path:
    file = folder / "meminfo"
    file.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {mb * 1024} kB\n", "utf-8")
    return file


def test_without_limits_all_cores_and_what_is_available_count(tmp_path: Path) -> None:
    found = this_machine(
        files(tmp_path, cpu_max="max 100000\n", memory_max="max\n"), meminfo(tmp_path, 5_000)
    )
    assert found == Machine(len(os.sched_getaffinity(0)), 5_000)


def test_container_has_its_own_limits(tmp_path: Path) -> None:
    limits = files(
        tmp_path,
        cpu_max="150000 100000\n",
        memory_max=f"{2_000 * 2**20}\n",
        memory_current=f"{500 * 2**20}\n",
    )
    assert this_machine(limits, meminfo(tmp_path, 5_000)) == Machine(1, 1_500)


def test_machine_that_tells_nothing_has_what_it_was_built_with(tmp_path: Path) -> None:
    assert this_machine(tmp_path, tmp_path / "nothing").free_mb > 0


@pytest.mark.parametrize(
    ("machine", "nodes", "shared"),
    [
        (Machine(2, 16_000), 16, 16),
        (Machine(16, 64_000), 16, 2),
        (Machine(1, 16_000), 8, 8),
        (Machine(2, 900), 4, 4),
    ],
)
def test_cluster_is_as_large_as_cores_and_memory_allow(
    machine: Machine, nodes: int, shared: int
) -> None:
    assert nodes_for(machine) == nodes
    assert nodes_per_process(nodes, machine) == shared
