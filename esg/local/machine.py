"""What this machine has: cores and memory, as far as this process may use them."""

import os
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Where a container sees its own limits (cgroup v2)."""
MEMINFO = Path("/proc/meminfo")
MB = 2**20


@dataclass(frozen=True, slots=True)
class Machine:
    cores: int
    free_mb: int
    """Memory that can be had without taking it from anybody."""


def this_machine(cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> Machine:
    """By affinity and by what the system has left, or by the limits of a container."""
    cores, free_mb = len(os.sched_getaffinity(0)), _available_mb(meminfo)
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = max(1, min(cores, int(quota) // int(period)))
    limit, used = _read(cgroup / "memory.max"), _read(cgroup / "memory.current")
    if limit.isdigit() and used.isdigit():
        free_mb = min(free_mb, max(0, int(limit) - int(used)) // MB)
    return Machine(cores, free_mb)


def _available_mb(meminfo: Path) -> int:
    for line in _read(meminfo).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024 // MB
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MB


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except OSError:
        return ""
