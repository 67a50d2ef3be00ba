"""Bugs planted on purpose in what is done about kinds of slices: the simulation finds them."""

from collections import Counter
from typing import Any

import pytest

from esg.core.messages.commands import Command, StartTask
from esg.core.pool.phased import PhasedTasks
from esg.core.scheduler.scheduler import Scheduler
from esg.core.scheduler.standing_orders import StandingOrders
from esg.core.state.node_books import NodeBooks
from tests.simulation.story import Story, draw, in_turn, of_kinds, with_room
from tests.simulation.test_planted_bugs import broken_promise, instead


def mixed(seed: int) -> Story:
    return of_kinds(draw(seed))


def mixed_in_phases(seed: int) -> Story:
    return of_kinds(in_turn(draw(seed)))


def test_nodes_come_with_other_slices_in_stories_with_kinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: Counter[str] = Counter()
    plans: list[frozenset[str]] = []

    def noted(right: Any, self: Scheduler, command: Command) -> None:
        right(self, command)
        if isinstance(command, StartTask):
            kinds[command.order.config.kind] += 1
            plans.append(self._on_kinds.kinds)

    instead(monkeypatch, Scheduler, "_emit", noted)
    assert not broken_promise(12, mixed)
    assert len(kinds) == 3
    assert min(kinds.values()) > 10
    assert len(set(plans)) > 3


def test_books_that_give_slices_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_kind(_: Any, self: NodeBooks, function: str, count: int, __: str) -> list[int]:
        free = [i for i, part in enumerate(self.slices) if part.usable and not part.holder]
        return [i for i in free if function in self.slices[i].residents][:count]

    instead(monkeypatch, NodeBooks, "warm_free", any_kind)
    assert "on slices of another kind" in broken_promise(story=mixed)


def test_room_that_is_counted_for_all_kinds_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def together(_: Any, self: NodeBooks, part: Any, by: int) -> None:
        self.vgpus_free += by
        for kind in self.free_of:
            self.free_of[kind] += by

    instead(monkeypatch, NodeBooks, "_slice_is_free", together)
    assert "slices are held by" in broken_promise(story=mixed)


class AnyKind(str):
    """A kind that passes for any."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def test_a_pool_that_binds_tasks_late_to_slices_of_another_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def careless(right: Any, self: PhasedTasks, now_us: int) -> None:
        slices = self._pool.slices
        for part in slices:
            part.kind = AnyKind(part.kind)
        right(self, now_us)
        for part in slices:
            part.kind = str(part.kind)

    instead(monkeypatch, PhasedTasks, "_hand_out_slices", careless)
    assert "is planned for" in broken_promise(story=mixed_in_phases)


def test_plans_that_go_on_with_slices_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, Scheduler, "_nodes_changed", lambda *_: None)
    assert "and there is" in broken_promise(story=mixed)


def test_requests_that_no_slice_can_run_and_that_are_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instead(monkeypatch, Scheduler, "_runs_nowhere", lambda *_: None)
    assert broken_promise(story=mixed)


def test_follow_ups_for_slices_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def roomy(seed: int) -> Story:
        return of_kinds(with_room(draw(seed), "apex"))

    def careless(right: Any, self: Any, stage: Any, config: Any, held: Any, *more: Any) -> Any:
        return right(self, stage, config, held._replace(kind=config.kind), *more)

    instead(monkeypatch, StandingOrders, "_fits", careless)
    assert "wants more than that holds" in broken_promise(story=roomy)
