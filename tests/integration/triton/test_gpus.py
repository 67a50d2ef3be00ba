"""Real Triton servers for the devices of a made-up GPU host: one for each, which sees no other."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from esg.core.catalog.file import load_catalog
from esg.invoker.slices import bringup
from esg.invoker.slices.bringup import slice_set
from esg.invoker.slices.gpus import find_devices
from esg.invoker.tensors.arrays import Array
from esg.runtime.settings import CommonSettings, InvokerSettings
from tests.component.invoker.test_gpus import Card, Nvml, cut
from tests.support.triton_folders import write_functions
from tests.support.waiting import LIMIT_S


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog with models for GPUs, on a host with an instance of 1g and a whole GPU."""
    host = Nvml(cut("1g.5gb"), Card(mode=(0, 0), uuid="GPU-whole"))
    monkeypatch.setattr(bringup, "find_devices", partial(find_devices, nvml=host))
    monkeypatch.setattr(bringup, "why_no_driver", lambda: "")
    catalog = write_functions(tmp_path)
    for models in tmp_path.glob("*/models/cpu"):
        models.rename(models.with_name("gpu"))
    return catalog


async def test_every_device_has_a_triton_server_that_sees_it_alone(file: Path) -> None:
    catalog, common = load_catalog(file), CommonSettings(catalog=str(file))
    own = bringup.settled(InvokerSettings(slices="auto"), catalog)
    async with slice_set(own, common, catalog, "node") as found:
        seen = {
            index: _variable(process.pid, "CUDA_VISIBLE_DEVICES")
            for process, (index,) in found.processes.items()
        }
        assert seen == {0: "MIG-00000000", 1: "GPU-whole"}
        assert found.memories_mb == (4864, 40960)
        for part in found.slices:
            await part.load("repeat")
            asked: Array = np.arange(10, dtype=np.uint8)
            (made,) = await part.infer("repeat", [{"X": asked}], parameters={}, timeout_s=LIMIT_S)
            assert made


async def test_a_function_without_a_model_for_gpus_is_named_and_the_others_run(file: Path) -> None:
    (file.parent / "invert" / "models" / "gpu" / "1").rename(file.parent / "elsewhere")
    catalog, common = load_catalog(file), CommonSettings(catalog=str(file))
    async with slice_set(InvokerSettings(slices="gpu"), common, catalog, "node") as found:
        assert len(found.slices) == 1
        assert "invert has no model for gpu slices yet" in found.lacking["invert"]
        await found.slices[0].load("repeat")


def _variable(pid: int, name: str) -> str:
    """Of a process's environment."""
    words = Path(f"/proc/{pid}/environ").read_text("utf-8").split("\0")
    return dict(word.partition("=")[::2] for word in words if word)[name]
