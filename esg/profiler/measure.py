"""Function by function, config by config: load, warm up, run, note.

Tasks run one at a time, so that each has the node to itself. The first one on every slice loads the
model, which gives the cold start; then come the configs, small ones first. One that fails twice is
infeasible. If it ran out of memory, so would every other with as large a portion per slice, and
they are not even tried.

Configs are run in phases, which tells what they take on the slices, before and after; and in turn
as joint tasks, where these may take another time. Models are loaded for joint tasks: in phases, the
CPU part would go on meanwhile, and the cold start seem shorter than it is.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import ceil

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog, Function
from esg.core.catalog.phases import TaskMode
from esg.profiler.grid import SMALLEST, Effort, modes_of
from esg.profiler.node_under_test import Bench, Failed, Inputs
from esg.profiler.record import Cell, FunctionRecord, ProfileRecord
from esg.profiler.samples import ProfilingPayloads
from esg.units import seconds

TRIES = 2
SPARE = 4
"""Runs that may fail, or find their model gone, before a config is given up."""
LONG_US = seconds(20)
"""A cell that has taken so long is done with two runs in each mode."""
MB = 1_000_000
LOOK_S, ALIKE, SETTLING_LOOKS = 0.5, 5, 30
"""Memory is settled when so many looks, so far apart, see the same."""


@dataclass(slots=True)
class Profiler:
    """`save` is called after every cell, `done` is told how much of the work it was.

    `server` is the name of the processes whose memory is the models', if they can be seen.
    """

    bench: Bench
    catalog: Catalog
    samples: ProfilingPayloads
    record: ProfileRecord
    effort: Effort
    save: Callable[[], None]
    done: Callable[[float], None]
    server: str = ""

    def missing(self, name: str, configs: Sequence[Config]) -> list[Config]:
        """What is not in the record yet."""
        measured = self.record.of(name)
        return [config for config in configs if measured.cell(config) is None]

    async def measure(self, name: str, configs: Sequence[Config]) -> None:
        """What is missing of one function; if it cannot run at all, a Fault says why."""
        missing = self.missing(name, configs)
        if missing:
            try:
                await self._function(self.catalog.functions[name], self.record.of(name), missing)
            finally:
                self.bench.drop(name)

    async def _function(
        self, function: Function, measured: FunctionRecord, missing: Sequence[Config]
    ) -> None:
        inputs = await self.samples.inputs_of(function)
        measured.input_bytes = sum(len(content) for content in inputs)
        before = await self._settled_memory() if self.server else 0
        measured.cold_starts_us = await self._cold_starts(function, inputs)
        for config in missing:
            measured.cells.append(await self._cell(function, measured, config, inputs))
            measured.cells.sort(key=lambda cell: (cell.config.kind, cell.config))
            self.save()
            self.done(work_of(function, config))
        if self.server:
            grown = self.bench.memory_bytes(self.server) - before
            measured.memory_mb = max(1, ceil(grown / self.bench.slices / MB), measured.memory_mb)
            self.save()

    async def _cold_starts(self, function: Function, inputs: Inputs) -> list[int]:
        """The time to load the model on each slice, one after the other."""
        found = []
        for index in range(self.bench.slices):
            config = SMALLEST._replace(kind=self.bench.kinds[index])
            ran = await self.bench.run(function.name, config, [inputs], [index])
            self.samples.keep(function.name, ran.outputs[0])
            found.append(ran.loading_us)
        return [time_us for time_us in found if time_us] or found

    async def _settled_memory(self) -> int:
        """What the servers hold when models that were dropped are gone: that takes a while."""
        seen = [self.bench.memory_bytes(self.server)]
        for _ in range(SETTLING_LOOKS):
            await asyncio.sleep(LOOK_S)
            seen.append(self.bench.memory_bytes(self.server))
            if len(seen) > ALIKE and max(seen[-ALIKE:]) - min(seen[-ALIKE:]) < MB:
                break
        return seen[-1]

    async def _cell(
        self, function: Function, measured: FunctionRecord, config: Config, inputs: Inputs
    ) -> Cell:
        if _cannot_fit(measured, config):
            return Cell(config, failure="out of memory, as a smaller portion was")
        cell, failures, taken_us = Cell(config), 0, 0
        warm_up, wanted = self.effort.warm_up, self.effort.repetitions
        runs = dict.fromkeys(modes_of(function, config), 0)
        rows = [inputs] * config.batch
        for mode in islice(cycle(runs), warm_up + wanted * len(runs) + SPARE):
            phased = mode is TaskMode.PHASED
            try:
                ran = await self.bench.run(function.name, config, rows, phased=phased)
            except Failed as error:
                failures += 1
                if failures == TRIES:
                    return Cell(config, failure=str(error))
                continue
            taken_us += ran.running_us
            if warm_up and taken_us < LONG_US:
                warm_up -= 1
            elif not ran.loading_us:  # else its model was not there any more
                runs[mode] += 1
                if phased:
                    cell.phased.append(ran.phases)
                else:
                    cell.joint_us.append(ran.running_us)
            fewest = min(runs.values())
            if fewest >= wanted or (fewest > 1 and taken_us > LONG_US):
                break
        stayed = min(runs.values()) > 0
        return cell if stayed else Cell(config, failure="its model did not stay loaded")


def work_of(function: Function, config: Config) -> float:
    """About how much of the time a config takes, for whoever looks at a bar."""
    portions = config.batch / config.vgpus + config.batch / config.vcpus
    return portions * len(modes_of(function, config))


def _cannot_fit(measured: FunctionRecord, config: Config) -> bool:
    portion = ceil(config.batch / config.vgpus)
    return any(
        cell.out_of_memory and portion >= ceil(cell.config.batch / cell.config.vgpus)
        for cell in measured.cells
        if cell.config.kind == config.kind
    )
