"""Which configs are measured, in which order, and in which modes of tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.model import Function
from esg.core.catalog.phases import DRIVING_VCPUS, TaskMode
from esg.core.catalog.profile_model import Grid
from esg.core.catalog.slice_kinds import USUAL
from esg.errors import Rejected

BATCHES = (1, 2, 4, 8)
QUICK_BATCHES = (1, 2, 4)
SMALLEST = Config(1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often a config is run: first without looking, then for the record."""

    warm_up: int = 2
    repetitions: int = 5


QUICK = Effort(warm_up=1, repetitions=3)


def configs_of(grid: Grid, kind: str = USUAL) -> list[Config]:
    """Small ones first, on slices of a kind; without slices that would have nothing to do.

    >>> [str(config) for config in configs_of(Grid(batch=[1, 2], vcpus=[1], vgpus=[1, 2]))]
    ['1/1/1', '2/1/1', '2/1/2']
    """
    found = [
        config._replace(kind=kind) for config in grid.configs() if config.vgpus <= config.batch
    ]
    if not found or min(grid.batch) != 1 or min(grid.vgpus) != 1:
        raise Rejected("a batch of 1 on one slice is the least that a function needs; name 1 too")
    return sorted(found, key=lambda config: (config.batch, config.vgpus, config.vcpus))


def modes_of(function: Function, config: Config) -> tuple[TaskMode, ...]:
    """How a config is run: in phases, and as a joint task too if that may take another time.

    All that they differ in is the CPU part after the slices. In phases it has the one vCPU that
    drove them, in a joint task as many of all its vCPUs as it can use.
    """
    usable = config.vcpus if function.cpu is CpuUse.WITHIN_JOB else min(config.batch, config.vcpus)
    if function.handler and usable > DRIVING_VCPUS:
        return TaskMode.PHASED, TaskMode.JOINT
    return (TaskMode.PHASED,)


def steps(most: int, *, quick: bool) -> list[int]:
    """Numbers from one to the most: doubling, or with `quick` only the two ends.

    >>> steps(7, quick=False), steps(7, quick=True), steps(1, quick=True)
    ([1, 2, 4, 7], [1, 7], [1])
    """
    doubling = [2**power for power in range(most.bit_length())]
    return sorted({1, most} if quick else {*doubling, most})


def chosen(named: Sequence[int] | None, usual: Sequence[int], most: int, what: str) -> list[int]:
    """What was asked for, if the node has as much; or else the usual."""
    if named is None:
        return list(usual)
    if max(named) > most:
        raise Rejected(f"--{what} {max(named)}: the node has {most}; name at most as many")
    return sorted(set(named))
