"""What benchmarks of a live mesh share: a mesh, a look at its processes, and stages that take no
time."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
OWN_PROGRAM = Path(sys.executable).with_name("esg")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process and its children: CPU time since it began, and memory now."""

    cpu_s: float
    memory_mb: float


def usage(pid: int) -> Usage:
    cpu_s = memory_mb = 0.0
    for each in (pid, *children(pid)):
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


def children(pid: int) -> list[int]:
    """All that descend from a process, by whichever of its threads they were started."""
    found = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended just now
            for child in map(int, listed.read_text().split()):
                found += [child, *children(child)]
    return found


@dataclass(frozen=True, slots=True)
class LiveMesh:
    gateway: str
    processes: dict[str, int]
    """The pid of each, by its name: redis, controller, gateway, node0, ..."""


@contextmanager
def started_mesh(
    catalog: Path, *, slices: int, esg: Path = OWN_PROGRAM, checkout: Path = ROOT
) -> Iterator[LiveMesh]:
    """A mesh of one node as `esg up` starts it, from any checkout: all is as by default, the
    journal included."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ESG_")}
    with TemporaryDirectory() as folder:
        options = ["--nodes", "1", "--vgpus", str(slices), "--warm-start", "--port", "0"]
        options += ["--catalog", str(catalog), "--payload-scale", "1", "--log-level", "warning"]
        options += ["--json", "--detach"]
        subprocess.run(
            [esg, "up", "--dir", folder, *options],
            cwd=checkout,
            env=environ,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        try:
            record = json.loads((Path(folder) / "mesh.json").read_text())
            processes = {each["name"]: each["pid"] for each in record["processes"]}
            yield LiveMesh(record["gateway"], processes)
        finally:
            subprocess.run(
                [esg, "down", "--dir", folder],
                cwd=checkout,
                env=environ,
                stdout=subprocess.DEVNULL,
                check=True,
            )


@contextmanager
def no_op_catalog(
    stages: int = 3, largest_batch: int = 32, applications: Mapping[str, float] | None = None
) -> Iterator[Path]:
    """An application `chain` of stages that take no time, alone or in batches; or several, each
    with the MB that its stages give."""
    with TemporaryDirectory() as folder:
        catalog = Path(folder) / "catalog.toml"
        parts = ["[cluster]\nnodes = 1\nvcpus = 16\nvgpus = 7\nslice_memory_mb = 1000\n"]
        batches = [2**n for n in range(largest_batch.bit_length())]
        table = "".join(f"{batch},1,1,0.001\n" for batch in batches if batch <= largest_batch)
        for application, output_mb in (applications or {"chain": 0}).items():
            prefix = "" if application == "chain" else f"{application}-"
            names = [f"{prefix}step{number}" for number in range(1, stages + 1)]
            for name in names:
                parts.append(
                    f'[functions.{name}]\nprofile = "{name}.toml"\n'
                    f"cold_start_ms = 1\ninput_mb = {output_mb:f}\nmemory_mb = 10\n"
                )
                (Path(folder) / f"{name}.csv").write_text("batch,vcpus,vgpus,time_ms\n" + table)
                (Path(folder) / f"{name}.toml").write_text(
                    f'function = "{name}"\n[provenance]\nkind = "made up: it takes no time"\n'
                    f'[measured]\ntable = "{name}.csv"\n'
                )
            chain = ", ".join(f'"{name}"' for name in names)
            parts.append(f"[applications.{application}]\nchain = [{chain}]\nslo_ms = 1000\n")
        catalog.write_text("\n".join(parts))
        yield catalog
