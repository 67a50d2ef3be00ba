"""Phases: what a task holds, and when.

A task is a CPU part (fetching, decoding, preprocessing), a part on its slices, and perhaps a CPU
part after that (postprocessing, encoding). How long it may hold what it was granted is a choice:

    joint     all of it from the first phase to the end of the last, as in the paper
    phased    all its vCPUs for the CPU part before; its slices, and one vCPU that drives them,
              while it runs there; that one vCPU for what comes after

A phased task gives back and never takes more, so nothing can wait in a circle: it only waits for
its slices, and holds none while it does.
"""

from enum import StrEnum
from typing import NamedTuple

from esg.core.catalog.config import Config
from esg.errors import Rejected
from esg.suggest import did_you_mean

DRIVING_VCPUS = 1
"""What a phased task keeps of its vCPUs after its first phase."""


class TaskMode(StrEnum):
    """Whether tasks hold what they were granted for all of their time, or phase by phase."""

    JOINT = "joint"
    PHASED = "phased"


def task_mode(name: str) -> TaskMode:
    """The mode of that name.

    >>> task_mode("phased")
    <TaskMode.PHASED: 'phased'>
    """
    modes = {str(mode): mode for mode in TaskMode}
    if name not in modes:
        raise Rejected(did_you_mean("mode of tasks", name, modes))
    return modes[name]


class Phases(NamedTuple):
    """How long each phase of a task takes."""

    before_us: int
    slices_us: int
    after_us: int

    @property
    def total_us(self) -> int:
        return self.before_us + self.slices_us + self.after_us

    def held_by(self, config: Config) -> tuple[int, int]:
        """The vCPU time and the vGPU time of a phased task.

        >>> Phases(300, 1000, 10).held_by(Config(1, 3, 2))
        (1910, 2000)
        """
        vcpu_us = config.vcpus * self.before_us + DRIVING_VCPUS * (self.slices_us + self.after_us)
        return vcpu_us, config.vgpus * self.slices_us
