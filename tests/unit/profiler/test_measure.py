"""How often, and in which modes, configs are run; on a bench that only says what it was asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.messages.events import TaskFinished
from esg.profiler.grid import Effort, modes_of
from esg.profiler.measure import Profiler, work_of
from esg.profiler.node_under_test import Bench, Failed, Inputs, Ran
from esg.profiler.record import Cell, ProfileRecord
from esg.profiler.samples import ProfilingPayloads
from esg.units import ms, seconds
from tests.support.small_catalog import SMALL

PLAIN = SMALL.functions["detect"]
HANDLED = replace(PLAIN, handler="parts:Detect")
ALONE, BATCH = Config(1, 1, 1), Config(2, 4, 1)
BEFORE_US, SLICES_US, AFTER_US = ms(10), ms(50), ms(20)
P, J = TaskMode.PHASED, TaskMode.JOINT


@dataclass
class Told:
    """A bench on which two vCPUs do the last part in half the time. `fails` and `loads` are the
    numbers of runs that fail, or find their model gone; `slower` is a factor."""

    fails: set[int] = field(default_factory=set)
    loads: set[int] = field(default_factory=set)
    slower: int = 1
    slices: int = 2
    kinds: tuple[str, ...] = ("", "")
    asked: list[tuple[Config, TaskMode]] = field(default_factory=list)
    cold: list[TaskMode] = field(default_factory=list)

    async def run(
        self,
        function: str,
        config: Config,
        rows: Sequence[Inputs],
        slices: Sequence[int] = (),
        *,
        phased: bool = False,
    ) -> Ran:
        assert len(rows) == config.batch
        mode = P if phased else J
        if slices:
            self.cold.append(mode)
            return Ran(ms(70), ms(80), Phases(0, ms(80), 0), [b"output"])
        number = len(self.asked)
        self.asked.append((config, mode))
        if number in self.fails:
            raise Failed("it broke")
        loading_us = ms(70) if number in self.loads else 0
        if phased:
            parts = (BEFORE_US, SLICES_US, AFTER_US)
            phases = Phases(*(part * self.slower for part in parts))
            waited_us = ms(1)
            return Ran(loading_us, phases.total_us + waited_us, phases, [])
        joint_us = (BEFORE_US + SLICES_US + AFTER_US // 2) * self.slower
        return Ran(loading_us, joint_us, Phases(0, joint_us, 0), [])

    def drop(self, function: str) -> None: ...


async def measured(
    bench: Told, config: Config, *, handled: bool = True, effort: Effort | None = None
) -> Cell:
    function = HANDLED if handled else PLAIN
    catalog = replace(SMALL, functions={**SMALL.functions, "detect": function})
    record = ProfileRecord({})
    profiler = Profiler(
        bench=cast(Bench, bench),
        catalog=catalog,
        samples=ProfilingPayloads(catalog, cast(Bench, bench), b"a picture"),
        record=record,
        effort=effort or Effort(),
        save=lambda: None,
        done=lambda _: None,
    )
    profiler.samples.keep("resize", b"a picture")
    await profiler.measure("detect", [config])
    (cell,) = record.of("detect").cells
    return cell


@pytest.mark.parametrize(
    ("config", "handler", "cpu", "modes"),
    [
        (Config(4, 1, 1), "parts:Detect", CpuUse.ACROSS_JOBS, (P,)),
        (Config(1, 4, 1), "parts:Detect", CpuUse.ACROSS_JOBS, (P,)),
        (Config(2, 4, 1), "parts:Detect", CpuUse.ACROSS_JOBS, (P, J)),
        (Config(1, 4, 1), "parts:Detect", CpuUse.WITHIN_JOB, (P, J)),
        (Config(1, 1, 1), "parts:Detect", CpuUse.WITHIN_JOB, (P,)),
        (Config(2, 4, 1), "", CpuUse.ACROSS_JOBS, (P,)),
    ],
)
def test_joint_tasks_are_run_where_more_than_one_vcpu_can_work_after_the_slices(
    config: Config, handler: str, cpu: CpuUse, modes: tuple[TaskMode, ...]
) -> None:
    function = replace(PLAIN, handler=handler, cpu=cpu)
    assert modes_of(function, config) == modes
    assert work_of(function, config) == len(modes) * work_of(PLAIN, config)


async def test_a_config_that_takes_as_long_in_phases_is_run_in_phases_only() -> None:
    bench = Told()
    cell = await measured(bench, ALONE)
    assert bench.asked == [(ALONE, P)] * 7
    assert (cell.phased, cell.joint_us) == ([Phases(BEFORE_US, SLICES_US, AFTER_US)] * 5, [])
    assert cell.time_us == BEFORE_US + SLICES_US + AFTER_US  # without what it waited


async def test_any_other_is_run_in_both_modes_in_turn_and_timed_as_a_joint_task() -> None:
    bench = Told()
    cell = await measured(bench, BATCH)
    assert [mode for _, mode in bench.asked] == [P, J] * 6
    assert (len(cell.phased), len(cell.joint_us)) == (5, 5)
    assert cell.phases == Phases(BEFORE_US, SLICES_US, AFTER_US // 2)


async def test_models_are_loaded_for_joint_tasks() -> None:
    bench = Told()
    await measured(bench, ALONE)
    assert bench.cold == [J, J]


async def test_runs_that_find_their_model_gone_do_not_count() -> None:
    cell = await measured(Told(loads={3, 4}), BATCH)
    assert min(len(cell.phased), len(cell.joint_us)) == 5
    gone = await measured(Told(loads=set(range(1, 100, 2))), BATCH)
    assert gone.failure == "its model did not stay loaded"


async def test_a_config_that_fails_twice_is_infeasible_in_whichever_mode() -> None:
    assert not (await measured(Told(fails={3}), BATCH)).failure
    assert (await measured(Told(fails={3, 4}), BATCH)).failure == "it broke"


async def test_a_config_that_takes_long_is_done_with_two_runs_in_each_mode() -> None:
    bench = Told(slower=seconds(30) // SLICES_US)
    cell = await measured(bench, BATCH)
    assert (len(cell.phased), len(cell.joint_us)) == (2, 2)
    assert len(bench.asked) == 4


def test_a_node_that_says_nothing_of_phases_has_spent_all_time_on_the_slices() -> None:
    end = TaskFinished(task="t1", invoker="n", loading_us=0, running_us=90)
    assert Ran.of(end, []).phases == Phases(0, 90, 0)
    told = TaskFinished(
        task="t2", invoker="n", loading_us=0, running_us=90, phases=Phases(10, 50, 20)
    )
    assert Ran.of(told, []) == Ran(0, 90, Phases(10, 50, 20), [])


async def test_quick_is_one_run_without_looking_and_three_for_the_record() -> None:
    bench = Told()
    await measured(bench, ALONE, handled=False, effort=Effort(warm_up=1, repetitions=3))
    assert len(bench.asked) == 4
