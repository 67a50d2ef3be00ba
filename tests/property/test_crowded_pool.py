"""A pool with more tasks in phases than its slices and their memory are good for: all of them end.

Of the functions, no more than two fit on a slice together. Once nothing new comes, every order of
the pool is answered, and nobody may be left waiting, or models be loaded and unloaded for ever.
"""

from random import Random

import pytest

from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.events import TaskFailed, TaskFinished
from esg.core.messages.node import (
    LoadModel,
    PoolCommand,
    PoolEvent,
    ReloadFunction,
    SliceBack,
    SliceLost,
    TaskLeftSlices,
    TellScheduler,
    UnloadModel,
)
from tests.property.test_pool import answer
from tests.support.node import LARGE, MEMORY_MB, check, drop, new_pool, start, warm

STORIES = 60
"""In a group of seeds."""

ANSWERS = 1500
"""That have to do until everything has ended."""


class Crowd:
    """A story, and all that comes of it."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = Random(f"{seed}: a crowded pool")
        self._slices = chance.randint(1, 3)
        self._kinds = [USUAL] * self._slices
        if Random(f"{seed}: kinds").random() < 0.5:
            self._kinds = Random(f"{seed}: slices").choices((USUAL, LARGE), k=self._slices)
        self.pool = new_pool(keep_alive_us=10**9, kinds=self._kinds)
        self._faults = chance.random() < 0.5
        self._functions = sorted(MEMORY_MB) if self._faults else ["blur", "crop", "deep", "wide"]
        self._now_us = 0
        self._started = 0
        self._lost: set[int] = set()
        self.open: set[str] = set()
        self.owed: list[PoolCommand | TaskLeftSlices] = []

    def tell(self) -> None:
        for _ in range(self._chance.choice((30, 60))):
            self._now_us += self._chance.randint(0, 5)
            self._something()
        for _ in range(ANSWERS):
            if not self.owed:
                return
            self._now_us += 1
            self._answer(0)

    def _something(self) -> None:
        chance, index = self._chance, self._chance.randrange(self._slices)
        function, kind = chance.choice(self._functions), chance.random()
        if kind < 0.25:
            self._start(function)
        elif kind < 0.3:
            self._happens(warm(index, function))
        elif kind < 0.33:
            self._happens(drop(index, function))
        elif kind < 0.38 and self._faults:
            self._goes_wrong(index, function)
        elif self.owed:
            self._answer(chance.randrange(len(self.owed)))

    def _start(self, function: str) -> None:
        chance = self._chance
        self._started += 1
        name = f"t{self._started}"
        self.open.add(name)
        where = chance.sample(range(self._slices), chance.randint(1, min(self._slices, 2)))
        kind = self._kinds[where[0]]
        where = [index for index in where if self._kinds[index] == kind]
        phased = not self._faults or chance.random() < 0.7
        vcpus, spare_us = chance.randint(1, 3), chance.randint(0, 60)
        order = start(
            name, function, *where, vcpus=vcpus, phased=phased, spare_us=spare_us, kind=kind
        )
        self._happens(order)

    def _goes_wrong(self, index: int, function: str) -> None:
        kind = self._chance.randrange(3)
        if kind == 0:
            self._happens(ReloadFunction(function=function))
        elif kind == 1:
            self._happens(SliceBack(slice=index))
        else:
            self._lost.add(index)
            self.owed = [
                order
                for order in self.owed
                if not (isinstance(order, LoadModel | UnloadModel) and order.slice == index)
            ]
            self._happens(SliceLost(slice=index, reason="killed"))

    def _answer(self, position: int) -> None:
        event = answer(self.owed.pop(position), "")
        if isinstance(event, TaskLeftSlices):
            self.owed.append(event)
        self._happens(event)

    def _happens(self, event: PoolEvent) -> None:
        orders = self.pool.handle(self._now_us, event)
        check(self.pool, self._now_us, self._lost)
        for order in orders:
            if not isinstance(order, TellScheduler):
                self.owed.append(order)
            elif isinstance(order.event, TaskFinished | TaskFailed):
                self.open.remove(order.event.task)  # exactly once


@pytest.mark.parametrize("first_seed", range(0, 600, STORIES))
def test_everybody_gets_their_turn(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + STORIES):
        crowd = Crowd(seed)
        crowd.tell()
        assert not crowd.owed, f"seed {seed}: it goes on for ever"
        assert not crowd.open, f"seed {seed}: {sorted(crowd.open)} wait for ever"
