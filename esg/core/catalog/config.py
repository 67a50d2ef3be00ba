"""A config: how many jobs a task takes together, on how many vCPUs and vGPUs (slices of a kind)."""

from typing import NamedTuple

CONFIG_LEGEND = "batch/vCPUs/vGPUs"
"""What the text of a config says."""


class Config(NamedTuple):
    """How a task runs: jobs per batch, vCPUs, and vGPUs (slices), all of one kind.

    The kind is empty for the catalog's usual slices (see `slice_kinds`).

    >>> print(Config(2, 4, 1), Config(2, 4, 1, "3g.40gb"))
    2/4/1 2/4/1x3g.40gb
    """

    batch: int
    vcpus: int
    vgpus: int
    kind: str = ""

    def __str__(self) -> str:
        text = f"{self.batch}/{self.vcpus}/{self.vgpus}"
        return f"{text}x{self.kind}" if self.kind else text
