"""Scheduler and pool, told whatever the converters make of any message of any API, with the largest
numbers there are: an answer or a `Rejected`, never another error, and books that balance."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esg.controller.convert import application_from_wire, result_to_wire
from esg.controller.durability.recovery import deciding
from esg.core.journal.format import JournalEntry, entry_line, orders_digest, read_entries
from esg.core.messages.commands import (
    AnswerRequest,
    Command,
    CorrectProfiles,
    invoker_order,
)
from esg.core.messages.events import (
    ApplicationRetired,
    Event,
    InstanceReady,
    InvokerJoined,
    InvokerLost,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    SliceInventory,
    TaskFailed,
    TaskFinished,
    Woke,
)
from esg.core.messages.node import (
    ExecutionEnded,
    FunctionReloaded,
    ModelLoaded,
    ModelUnloaded,
    PoolCommand,
    PoolEvent,
    ReloadFunction,
    SliceBack,
    SliceLost,
    TellScheduler,
)
from esg.core.pool.pool import Pool
from esg.core.scheduler.invariants import check
from esg.core.scheduler.scheduler import Scheduler, build_scheduler
from esg.errors import Rejected
from esg.limits import LAST_TASK, LONGEST_TASK_US, LONGEST_US, MOST_SLICE_MB, MOST_VCPUS
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.runtime.settings import ControllerSettings
from esg.runtime.wire.convert import news_from_wire, news_to_wire, order_from_wire, order_to_wire
from tests.fuzz.budget import fuzzed, promptly
from tests.fuzz.messages import AWKWARD_NUMBERS, any_message, texts
from tests.support.small_catalog import SMALL

NODE = "n0"
FUNCTIONS = sorted(SMALL.functions)
LATER_US = st.sampled_from([0, 1, 10**4, 10**6, 10**9, 2**45])
TIMES_US = st.sampled_from([0, 1, 10**5, 10**9, LONGEST_TASK_US])

Step = Callable[[Scheduler], Event | None]
"""What happens next, given what the scheduler knows; None if that cannot happen."""


def always(read: Callable[[Any], Event]) -> Callable[[Any], Step]:
    """What a converter makes of a message; what it refuses does not happen."""

    def step(message: Any) -> Step:
        def happens(scheduler: Scheduler) -> Event | None:
            try:
                return read(message)
            except Rejected:
                return None

        return happens

    return step


def arrival(submission: wire.Submission) -> RequestArrived:
    return RequestArrived(
        request=submission.request_id,
        application=submission.application,
        slo_us=submission.slo_us if submission.HasField("slo_us") else None,
        all_stages=submission.all_stages,
        client=submission.owner,
    )


def registration(names: list[str], functions: list[str], scale: float | None) -> Any:
    """A chain that makes sense apart from its numbers and names."""
    stages = [
        model.Stage(name=name, function=function, after=names[:place][-1:])
        for place, (name, function) in enumerate(zip(names, functions, strict=False))
    ]
    return wire.PutApplicationRequest(name="new", stages=stages, slo_scale=scale)


registrations = st.one_of(
    any_message(wire.PutApplicationRequest),
    st.builds(
        registration,
        st.lists(texts.filter(bool), min_size=1, max_size=3, unique=True),
        st.lists(st.sampled_from(FUNCTIONS), min_size=3, max_size=3),
        st.one_of(st.none(), st.sampled_from(AWKWARD_NUMBERS)),
    ),
)
submissions = st.one_of(
    any_message(wire.Submission),
    st.builds(
        wire.Submission,
        request_id=st.sampled_from(["r1", "r2", "r3", "r4"]),
        application=st.sampled_from([*SMALL.applications, "new"]),
        slo_us=st.sampled_from([None, 10**6, LONGEST_US, 2**63 - 1, -(2**63)]),
        all_stages=st.booleans(),
        owner=st.sampled_from(["", "alice", "bob"]),
    ),
)


def of_a_task(made: Callable[[str, str], Event]) -> Step:
    """Something about the oldest task that runs."""

    def happens(scheduler: Scheduler) -> Event | None:
        task = next(iter(scheduler.state.tasks.values()), None)
        return None if task is None else made(task.name, task.invoker)

    return happens


def ending(loading_us: int, running_us: int) -> Step:
    return of_a_task(
        lambda task, invoker: TaskFinished(
            task=task, invoker=invoker, loading_us=loading_us, running_us=running_us
        )
    )


def joining(vcpus: int, memory_mb: int, latest_task: int) -> Event:
    slices = tuple(SliceInventory(memory_mb=memory_mb) for _ in range(3))
    return InvokerJoined(invoker=NODE, vcpus=vcpus, slices=slices, latest_task=latest_task)


def known(event: Event) -> Step:
    return lambda _: event


steps: st.SearchStrategy[Step] = st.one_of(
    registrations.map(always(application_from_wire)),
    submissions.map(always(arrival)),
    any_message(wire.InvokerNote).map(always(lambda note: news_from_wire(note, NODE))),
    st.builds(ending, TIMES_US, TIMES_US),
    st.builds(
        joining,
        st.sampled_from([0, 4, MOST_VCPUS]),
        st.sampled_from([0, 1000, MOST_SLICE_MB]),
        st.sampled_from([0, 7, LAST_TASK]),
    ).map(known),
    st.builds(
        InstanceReady,
        invoker=st.just(NODE),
        slice=st.integers(-1, 3),
        function=st.sampled_from([*FUNCTIONS, "?"]),
        loading_us=TIMES_US,
    ).map(known),
    st.sampled_from(
        [
            known(Woke()),
            known(InvokerLost(invoker=NODE)),
            known(RequestCancelled(request="r1")),
            known(ApplicationRetired(application="new")),
            of_a_task(lambda task, node: TaskFailed(task=task, invoker=node, reason="x")),
        ]
    ),
)


def tell(scheduler: Scheduler, now_us: int, event: Event) -> list[Command]:
    """As a controller does: handled, written down, and said on the wire."""
    commands = scheduler.handle(now_us, event)
    check(scheduler)
    entry = JournalEntry(now_us, event, orders_digest(commands))
    assert list(read_entries([entry_line(entry)])) == [entry]
    for command in commands:
        order = invoker_order(command)
        if order is not None:
            assert order_from_wire(order_to_wire(order), order.invoker) == order
        if isinstance(command, AnswerRequest):
            result_to_wire(command, command.application, now_us)
    return commands


# attack: A1
@pytest.mark.parametrize("policy", ["apex", "esg", "infless"])
@fuzzed()
@given(st.lists(st.tuples(LATER_US, steps), max_size=25))
def test_a_scheduler_has_an_answer_to_whatever_comes_from_outside(
    policy: str, story: list[tuple[int, Step]]
) -> None:
    # As a live controller has them, with limits that are soon reached
    settings = deciding(ControllerSettings(policy=policy, max_waiting=3, max_waiting_in_all=4))
    scheduler = build_scheduler(SMALL, settings)
    now_us = 0
    with promptly():
        tell(scheduler, 0, joining(4, 1000, 0))
        for later_us, step in story:
            event = step(scheduler)
            if event is None:
                continue
            now_us += later_us
            for command in tell(scheduler, now_us, event):
                if isinstance(command, CorrectProfiles):
                    tell(scheduler, now_us, ProfilesCorrected(corrections=command.corrections))
            assert scheduler.next_wake is None or scheduler.next_wake > now_us
        again = build_scheduler(SMALL, settings, scheduler.snapshot())
        assert again.snapshot() == scheduler.snapshot()


# ---- a node's pool

likely_orders = st.builds(
    lambda task, slices, vcpus, function: wire.Order(
        start=wire.TaskOrder(
            task=task,
            function=function,
            config=model.Config(batch=1, vcpus=vcpus, vgpus=len(slices)),
            slices=slices,
            jobs=[wire.Job(request_id="r1", inputs=[wire.Input(payload="@")], payload=b"x")],
        )
    ),
    st.sampled_from(["t1", "t2", "t3", "t9", f"t{LAST_TASK}", f"t{2**64}", "", "t-1", "t²"]),
    st.lists(st.integers(-1, 2), max_size=3),
    st.sampled_from([1, 0, -1, 4, MOST_VCPUS]),
    st.sampled_from([*FUNCTIONS, "?"]),
)
pool_slices, functions = st.integers(0, 1), st.sampled_from(FUNCTIONS)
node_facts: st.SearchStrategy[PoolEvent] = st.one_of(
    st.builds(ModelLoaded, slice=pool_slices, function=functions),
    st.builds(ModelUnloaded, slice=pool_slices, function=functions, failure=texts),
    st.builds(SliceLost, slice=pool_slices, reason=texts),
    st.builds(SliceBack, slice=pool_slices),
    st.builds(ReloadFunction, function=functions),
    st.builds(FunctionReloaded, function=functions),
    st.builds(ExecutionEnded, task=st.sampled_from(["t1", "t2", "t9"]), failure=texts),
    st.just(Woke()),
)


def pool_event(said: Any) -> PoolEvent | None:
    if not isinstance(said, wire.Order):
        event: PoolEvent = said
        return event
    try:
        order = order_from_wire(said, NODE)
    except Rejected:
        return None
    return order if isinstance(order, PoolEvent) else None  # data orders are the store's


def check_pool(pool: Pool, commands: list[PoolCommand]) -> None:
    held = [index for task in pool.running.values() for index in task.order.slices]
    vcpus = sum(task.order.config.vcpus for task in pool.running.values())
    assert len(set(held)) == len(held)
    assert 0 <= pool.vcpus_free == pool.vcpus - vcpus
    for command in commands:
        if isinstance(command, TellScheduler):
            news_from_wire(news_to_wire(command.event), NODE)
    for event in (pool.joined(), pool.report()):
        assert news_from_wire(news_to_wire(event), NODE) == event


@fuzzed()
@given(
    st.lists(
        st.tuples(LATER_US, st.one_of(likely_orders, any_message(wire.Order), node_facts)),
        max_size=25,
    )
)
def test_a_pool_has_an_answer_to_whatever_a_controller_says(story: list[tuple[int, Any]]) -> None:
    pool = Pool(SMALL, NODE, vcpus=4, memories_mb=(1000, 500))
    now_us = 0
    with promptly():
        for later_us, said in story:
            event = pool_event(said)
            if event is not None:
                now_us += later_us
                check_pool(pool, pool.handle(now_us, event))
