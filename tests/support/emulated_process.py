"""A catalog for emulated slices, and the process that has them.

    quick    1 ms for a job, 2 for two, half of it on the slice; takes a moment to load
    other    like quick
    large    leaves no room for the two
    endless  loads at once, and a job takes half an hour
    heavy    takes half an hour to load

A slice has 1000 MB.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from esg.invoker.slices.directory import slice_directory
from esg.invoker.slices.processes import EmulatedSlices
from esg.runtime.slice_setting import Emulated
from tests.support.waiting import until

LONG_MS = 1_800_000
MEMORY_MB = {"quick": 300, "other": 300, "large": 700, "endless": 100, "heavy": 100}
INPUT_BYTES = 1000

_FUNCTION = """
[functions.{name}]
profile = "{name}.toml"
cold_start_ms = {cold_start_ms}
input_mb = {input_mb}
memory_mb = {memory_mb}
"""
_PROFILE = """
function = "{name}"
[provenance]
times = "invented"
[measured]
table = "{name}.csv"
relative_std = 0.1
"""
_CATALOG = """
[cluster]
nodes = 1
vcpus = 4
vgpus = 2
slice_memory_mb = 1000
[applications.one]
chain = ["quick"]
"""


def write_catalog(folder: Path) -> Path:
    """The file of the catalog, with its profiles beside it."""
    text = _CATALOG
    for name, memory_mb in MEMORY_MB.items():
        job_ms = LONG_MS if name == "endless" else 1
        cold_start_ms = {"endless": 0, "heavy": LONG_MS}.get(name, 5)
        text += _FUNCTION.format(
            name=name,
            cold_start_ms=cold_start_ms,
            input_mb=INPUT_BYTES / 1_000_000,
            memory_mb=memory_mb,
        )
        rows = ["batch,vcpus,vgpus,time_ms,slices_ms,after_ms"]
        for config, factor in (("1,1,1", 1), ("2,1,1", 2), ("4,2,2", 3)):
            time_ms = factor * job_ms
            rows.append(f"{config},{time_ms},{time_ms / 2},{time_ms / 8}")
        (folder / f"{name}.csv").write_text("\n".join(rows), "utf-8")
        (folder / f"{name}.toml").write_text(_PROFILE.format(name=name), "utf-8")
    (folder / "catalog.toml").write_text(text, "utf-8")
    return folder / "catalog.toml"


@asynccontextmanager
async def emulated(count: int, catalog: Path, **settings: str) -> AsyncIterator[EmulatedSlices]:
    """A process with slices of that catalog; settings are variables without their prefix."""
    with slice_directory() as directory:
        process = EmulatedSlices(Emulated(str(count)), directory)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ESG_CATALOG", str(catalog))
            for name, value in settings.items():
                patch.setenv(f"ESG_{name.upper()}", value)
            await process.start()
        try:
            yield process
        finally:
            await process.stop()


async def until_state(
    states: Callable[[], Awaitable[dict[str, str]]], name: str, state: str
) -> None:
    """Wait until a model is said to be in this state."""

    async def reached() -> bool:
        return (await states())[name] == state

    await until(reached)
