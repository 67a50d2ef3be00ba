"""A config: how many jobs a task takes together, on how many vCPUs and vGPUs (MIG slices)."""

from typing import NamedTuple

CONFIG_LEGEND = "batch/vCPUs/vGPUs"
"""What the text of a config says."""


class Config(NamedTuple):
    """How a task runs: jobs per batch, vCPUs and vGPUs (slices).

    >>> print(Config(2, 4, 1))
    2/4/1
    """

    batch: int
    vcpus: int
    vgpus: int

    def __str__(self) -> str:
        return f"{self.batch}/{self.vcpus}/{self.vgpus}"
