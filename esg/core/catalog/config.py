"""A config: how many jobs a task takes together, on how many vCPUs and vGPUs (MIG slices)."""

from typing import NamedTuple


class Config(NamedTuple):
    """How a task runs: jobs per batch, vCPUs and vGPUs (slices)."""

    batch: int
    vcpus: int
    vgpus: int

    def __str__(self) -> str:
        return f"{self.batch} x {self.vcpus} vCPU x {self.vgpus} vGPU"
