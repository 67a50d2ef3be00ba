"""What benchmarks of a live mesh share: a look at its processes, and stages that take no time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process and its children: CPU time since it began, and memory now."""

    cpu_s: float
    memory_mb: float


def usage(pid: int) -> Usage:
    cpu_s = memory_mb = 0.0
    for each in (pid, *_children(pid)):
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        cpu_s += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        memory_mb += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * PAGE_MB
    return Usage(cpu_s, memory_mb)


def usages(processes: dict[str, int]) -> dict[str, Usage]:
    """By kind of process: all nodes together, with their slices."""
    total: dict[str, Usage] = {}
    for name, pid in processes.items():
        kind = "nodes" if name.startswith("node") else name
        one, sum_ = usage(pid), total.get(kind, Usage(0, 0))
        total[kind] = Usage(sum_.cpu_s + one.cpu_s, sum_.memory_mb + one.memory_mb)
    return total


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in children for found in (int(child), *_children(int(child)))]


@contextmanager
def no_op_catalog(stages: int = 3, largest_batch: int = 32) -> Iterator[Path]:
    """An application `chain` of stages that take no time, alone or in batches."""
    with TemporaryDirectory() as folder:
        names = [f"step{number}" for number in range(1, stages + 1)]
        parts = [
            "[cluster]\nnodes = 1\nvcpus = 16\nvgpus = 7\nslice_memory_mb = 1000\n",
            "".join(
                f'[functions.{name}]\nprofile = "{name}.toml"\n'
                "cold_start_ms = 1\ninput_mb = 0\nmemory_mb = 10\n"
                for name in names
            ),
            f"[applications.chain]\nchain = {names!r}\nslo_ms = 1000\n".replace("'", '"'),
        ]
        catalog = Path(folder) / "catalog.toml"
        catalog.write_text("\n".join(parts))
        batches = [2**n for n in range(largest_batch.bit_length())]
        table = "".join(f"{batch},1,1,0.001\n" for batch in batches if batch <= largest_batch)
        for name in names:
            (Path(folder) / f"{name}.csv").write_text("batch,vcpus,vgpus,time_ms\n" + table)
            (Path(folder) / f"{name}.toml").write_text(
                f'function = "{name}"\n[provenance]\nkind = "made up: it takes no time"\n'
                f'[measured]\ntable = "{name}.csv"\n'
            )
        yield catalog
