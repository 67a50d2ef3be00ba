"""Functions that take a few milliseconds, in a chain and in a diamond.

`detect` is cheaper in batches; `slow` takes for ever, so that it can be caught at work. What `tag`
gives is small enough to go along with messages.
"""

from pathlib import Path

import pytest

TIMES_MS = {
    "resize": {(1, 1, 1): 5},
    "detect": {(1, 1, 1): 20, (2, 1, 1): 22, (4, 1, 1): 26},
    "depth": {(1, 1, 1): 15},
    "label": {(1, 1, 1): 5, (2, 1, 1): 6},
    "tag": {(1, 1, 1): 5, (2, 1, 1): 6},
    "slow": {(1, 1, 1): 600_000},
}
INPUT_BYTES = 100_000
SMALL_BYTES = 10_000


def bytes_of(function: str) -> int:
    """What a function takes, and so, emulated, gives."""
    return SMALL_BYTES if function == "tag" else INPUT_BYTES


APPLICATIONS = """
[applications.photo]
chain = ["resize", "detect", "label"]
slo_ms = 20000

[applications.tags]
chain = ["resize", "detect", "tag"]
slo_ms = 20000

[applications.night]
chain = ["resize", "slow"]
slo_ms = 2000000

[applications.scene]
slo_ms = 20000
[applications.scene.stages.resize]
function = "resize"
[applications.scene.stages.detect]
function = "detect"
after = ["resize"]
[applications.scene.stages.depth]
function = "depth"
after = ["resize"]
[applications.scene.stages.label]
function = "label"
after = ["detect", "depth"]
"""


def write_catalog(folder: Path) -> Path:
    parts = ["[cluster]\nnodes = 2\nvcpus = 4\nvgpus = 2\nslice_memory_mb = 1000\n"]
    for name, times in TIMES_MS.items():
        rows = "".join(f"{b},{c},{g},{time_ms}\n" for (b, c, g), time_ms in times.items())
        (folder / f"{name}.csv").write_text("batch,vcpus,vgpus,time_ms\n" + rows)
        (folder / f"{name}.toml").write_text(
            f'function = "{name}"\n[provenance]\nkind = "made up"\n'
            f'[measured]\ntable = "{name}.csv"\n'
        )
        parts.append(
            f'[functions.{name}]\nprofile = "{name}.toml"\ncold_start_ms = 10\n'
            f"input_mb = {bytes_of(name) / 1e6}\nmemory_mb = 100\n"
        )
    file = folder / "catalog.toml"
    file.write_text("\n".join(parts) + APPLICATIONS)
    return file


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalog(tmp_path_factory.mktemp("catalog"))
