"""A pool that is told anything in any order, by slices that answer when and as they like."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.events import TaskFailed, TaskFinished, Woke
from esg.core.messages.node import (
    ExecuteTask,
    LoadModel,
    PoolCommand,
    PoolEvent,
    ReloadFunction,
    ReplaceModel,
    SliceBack,
    SliceLost,
    TaskLeftSlices,
    TellScheduler,
    UnloadModel,
)
from esg.core.messages.task_order import TaskOrder
from tests.support.node import (
    LARGE,
    MEMORY_MB,
    answer,
    check,
    drop,
    new_pool,
    recall,
    start,
    stop,
    warm,
)

KINDS = (USUAL, USUAL, LARGE)
"""Of the slices."""

SLICES = len(KINDS)
ANSWERS = 2000
"""That have to do until everything has ended."""

functions = st.sampled_from(sorted(MEMORY_MB))
slices = st.integers(0, SLICES - 1)
places = st.lists(slices, min_size=1, max_size=SLICES, unique=True)
alike = st.sampled_from([[0], [1], [0, 1], [1, 0], [2]])
"""Slices of one kind: an order for others is refused."""


class AnyPool(RuleBasedStateMachine):
    """`owed` are orders of the pool that were not answered yet; `open` are tasks it must end."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = new_pool(keep_alive_us=20, kinds=KINDS)
        self.now_us = 0
        self.started = 0
        self.open: set[str] = set()
        self.owed: list[PoolCommand | TaskLeftSlices] = []
        self.lost: set[int] = set()  # slices that were ever lost

    @rule(
        function=functions,
        where=st.one_of(alike, alike, places),
        vcpus=st.integers(1, 5),
        skipped=st.integers(1, 2),
        phased=st.booleans(),
        spare_us=st.integers(0, 30),
    )
    def start_a_task(
        self,
        function: str,
        where: list[int],
        vcpus: int,
        skipped: int,
        phased: bool,
        spare_us: int,
    ) -> None:
        self.started += skipped  # the tasks between went to other nodes
        name = f"t{self.started}"
        self.open.add(name)
        kind = KINDS[where[0]]
        order = start(
            name, function, *where, vcpus=vcpus, phased=phased, spare_us=spare_us, kind=kind
        )
        self.tell(order)
        if any(KINDS[index] != kind for index in where):
            assert name not in self.open

    @rule(
        chain=st.lists(functions, min_size=2, max_size=3),
        where=alike,
        within_us=st.integers(0, 60),
        less=st.booleans(),
        phased=st.booleans(),
        strange=st.booleans(),
    )
    def start_a_task_with_standing_orders(
        self,
        chain: list[str],
        where: list[int],
        within_us: int,
        less: bool,
        phased: bool,
        strange: bool,
    ) -> None:
        """Sound ones take no more than the task before; of the others, as of `strange` ones for
        slices of another kind, nothing is to come."""
        order: TaskOrder | None = None
        for number, function in reversed([*enumerate(chain, self.started + 1)]):
            follows = number > self.started + 1
            narrow, kind = less and follows, KINDS[where[0]]
            order = start(
                f"t{number}",
                function,
                *(where[:1] if narrow else where),
                vcpus=1 if narrow else 2,
                then=order,
                within_us=within_us,
                phased=phased,
                kind=f"not {kind}" if strange and follows else kind,
            )
        assert order is not None
        self.open.add(order.task)
        self.started += len(chain)
        self.tell(order)

    @rule(ago=st.integers(0, 3))
    def recall_what_stands(self, ago: int) -> None:
        self.tell(recall(f"t{self.started - ago}"))

    @precondition(lambda self: self.pool.joined().latest_task >= 3)
    @rule(function=functions, where=places, ago=st.integers(0, 2))
    def start_an_old_task_again(self, function: str, where: list[int], ago: int) -> None:
        before = list(self.pool.running)
        heard = self.pool.joined().latest_task
        self.tell(start(f"t{heard - ago}", function, *where))
        assert list(self.pool.running) == before

    @rule(ago=st.integers(0, 3))
    def stop_a_task(self, ago: int) -> None:
        self.tell(stop(f"t{self.started - ago}"))

    @rule(index=slices, function=functions)
    def warm_a_model(self, index: int, function: str) -> None:
        self.tell(warm(index, function))

    @rule(index=slices, function=functions)
    def drop_a_model(self, index: int, function: str) -> None:
        self.tell(drop(index, function))

    @rule(function=functions)
    def reload_a_function(self, function: str) -> None:
        self.tell(ReloadFunction(function=function))

    @precondition(lambda self: self.owed)
    @rule(data=st.data(), failure=st.sampled_from(["", "", "broken"]))
    def answer_an_order(self, data: st.DataObject, failure: str) -> None:
        position = data.draw(st.integers(0, len(self.owed) - 1))
        self.answer(position, failure)

    @rule(index=slices)
    def lose_a_slice(self, index: int) -> None:
        """Whoever was asked to load or unload something there will never answer."""
        self.owed = [
            order
            for order in self.owed
            if not (isinstance(order, LoadModel | UnloadModel) and order.slice == index)
        ]
        self.lost.add(index)
        self.tell(SliceLost(slice=index, reason="killed"))

    @rule(index=slices)
    def bring_a_slice_back(self, index: int) -> None:
        self.tell(SliceBack(slice=index))

    @rule(time_us=st.integers(1, 30))
    def let_time_pass(self, time_us: int) -> None:
        """The pool is woken when it asked for it, though other news may come first."""
        due_us = self.pool.next_wake
        if due_us is None or self.now_us + time_us < due_us:
            self.now_us += time_us
        else:
            self.now_us = due_us

    @rule()
    def wake(self) -> None:
        self.tell(Woke())

    def teardown(self) -> None:
        """Once every order is answered, every task has ended."""
        for _ in range(ANSWERS):
            if self.owed:
                self.answer(0, "")
        assert self.open == set()
        assert self.pool.running == {}

    def answer(self, position: int, failure: str) -> None:
        event = answer(self.owed.pop(position), failure)
        if isinstance(event, TaskLeftSlices):
            self.owed.append(event)  # and the rest of it
        self.tell(event)

    def tell(self, event: PoolEvent) -> None:
        orders = self.pool.handle(self.now_us, event)
        replaced = {order.function for order in self.owed if isinstance(order, ReplaceModel)}
        executed = [order for order in orders if isinstance(order, ExecuteTask)]
        assert not any(order.order.function in replaced for order in executed)
        check(self.pool, self.now_us, self.lost)
        for order in orders:
            if not isinstance(order, TellScheduler):
                self.owed.append(order)
            elif isinstance(order.event, TaskFinished | TaskFailed):
                self.open.remove(order.event.task)  # exactly once
                if isinstance(order.event, TaskFinished) and order.event.continued:
                    self.open.add(order.event.continued)


AnyPool.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestAnyPool = AnyPool.TestCase
