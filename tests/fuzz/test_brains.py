"""Scheduler and pool, told whatever the converters make of any message of any API, with the largest
numbers there are: an answer or a `Rejected`, never another error, and books that balance."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esg.controller.convert import application_from_wire, result_to_wire
from esg.controller.durability.recovery import deciding
from esg.core.catalog.phases import Phases
from esg.core.catalog.slice_kinds import USUAL
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
    InvokerNews,
    InvokerReported,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    RequestWanted,
    RunningTask,
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
    TaskLeftSlices,
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
from esg.runtime.wire.checks import check_submission
from esg.runtime.wire.convert import news_from_wire, news_to_wire, order_from_wire, order_to_wire
from tests.fuzz.budget import fuzzed, within_bounds
from tests.fuzz.messages import AWKWARD_NUMBERS, any_message, texts
from tests.support.node import answer
from tests.support.small_catalog import CPU, LARGE, MIXED, SMALL, in_phases

NODE = "n0"
FUNCTIONS = sorted(SMALL.functions)
CATALOGS = {"joint": MIXED, "phased": in_phases(MIXED)}
"""`of-somebody` is a kind that they do not know."""
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
    check_submission(submission.request_id, submission.owner, submission.payload)
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


asked = st.builds(
    wire.Submission,
    request_id=st.sampled_from(["r1", "r2", "r3", "r4"]),
    application=st.sampled_from(sorted(SMALL.applications)),
)
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


def said(event: InvokerNews) -> Event | None:
    """The same, as it comes over the wire; None if the converter refuses it."""
    try:
        return news_from_wire(news_to_wire(event), NODE)
    except Rejected:
        return None


def ending(
    times_us: tuple[int, int], phases: Phases | None, slices: tuple[int, ...], goes_on: str
) -> Step:
    """The oldest task's end. The node may say that it went on with what stood in its order, or with
    anything else."""

    def happens(scheduler: Scheduler) -> Event | None:
        task = next(iter(scheduler.state.tasks.values()), None)
        if task is None:
            return None
        standing = "" if task.then is None else task.then.task
        return said(
            TaskFinished(
                task=task.name,
                invoker=task.invoker,
                loading_us=times_us[0],
                running_us=times_us[1],
                phases=phases,
                slices=slices,
                continued=goes_on.replace("*", standing),
            )
        )

    return happens


def joining(
    vcpus: int,
    memory_mb: int,
    latest_task: int,
    running: tuple[RunningTask, ...] = (),
    kinds: tuple[str, ...] = (USUAL, USUAL, LARGE),
) -> Event:
    slices = tuple(SliceInventory(memory_mb=memory_mb, kind=kind) for kind in kinds)
    return InvokerJoined(
        invoker=NODE, vcpus=vcpus, slices=slices, running=running, latest_task=latest_task
    )


def inventory(joins: bool, holds: list[tuple[int, list[int]]]) -> Step:
    """What a node says it runs: the oldest tasks that are known, and others, with whatever it says
    they hold."""

    def happens(scheduler: Scheduler) -> Event | None:
        names = [*scheduler.state.tasks, "t7", "x"]
        running = tuple(
            RunningTask(task=name, vcpus=vcpus, slices=tuple(slices))
            for name, (vcpus, slices) in zip(names, holds, strict=False)
        )
        joined = joining(4, 1000, 7, running)
        assert isinstance(joined, InvokerJoined)
        if joins:
            return said(joined)
        return said(
            InvokerReported(invoker=NODE, slices=joined.slices, running=running, latest_task=7)
        )

    return happens


def known(event: Event) -> Step:
    return lambda _: event


steps: st.SearchStrategy[Step] = st.one_of(
    asked.map(always(arrival)),
    registrations.map(always(application_from_wire)),
    submissions.map(always(arrival)),
    any_message(wire.InvokerNote).map(always(lambda note: news_from_wire(note, NODE))),
    st.builds(
        ending,
        st.tuples(TIMES_US, TIMES_US),
        st.one_of(st.none(), st.builds(Phases, TIMES_US, TIMES_US, TIMES_US)),
        st.lists(st.integers(-1, 3), max_size=3).map(tuple),
        st.sampled_from(["", "*", "t7", "x"]),
    ),
    st.builds(
        inventory,
        st.booleans(),
        st.lists(
            st.tuples(st.integers(0, 4), st.lists(st.integers(-1, 3), max_size=2)), max_size=3
        ),
    ),
    st.builds(
        joining,
        st.sampled_from([0, 4, MOST_VCPUS]),
        st.sampled_from([0, 1000, MOST_SLICE_MB]),
        st.sampled_from([0, 7, LAST_TASK]),
        kinds=st.tuples(*[st.sampled_from([USUAL, LARGE, CPU, "of-somebody"])] * 3),
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
            known(RequestWanted(request="r1")),
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
@pytest.mark.parametrize(
    ("policy", "tasks"),
    [("apex", "joint"), ("apex", "phased"), ("esg", "joint"), ("infless", "joint")],
)
@fuzzed()
@given(st.lists(st.tuples(LATER_US, steps), min_size=8, max_size=25))
def test_a_scheduler_has_an_answer_to_whatever_comes_from_outside(
    policy: str, tasks: str, story: list[tuple[int, Step]]
) -> None:
    # As a live controller has them, with limits that are soon reached
    settings = deciding(
        ControllerSettings(policy=policy, tasks=tasks, max_waiting=3, max_waiting_in_all=4)
    )
    catalog = CATALOGS[tasks]
    scheduler = build_scheduler(catalog, settings)
    now_us = 0
    with within_bounds():
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
        again = build_scheduler(catalog, settings, scheduler.snapshot())
        assert again.snapshot() == scheduler.snapshot()


# ---- a node's pool

named_tasks = st.sampled_from(["t1", "t2", "t3", "t9"])
task_orders = st.builds(
    lambda task, slices, vcpus, function, phased, times_us: wire.TaskOrder(
        task=task,
        function=function,
        config=model.Config(batch=1, vcpus=vcpus, vgpus=len(slices)),
        slices=slices,
        jobs=[wire.Job(request_id="r1", inputs=[wire.Input(payload="@")], payload=b"x")],
        phased=phased,
        spare_us=times_us[0],
        within_us=times_us[1],
    ),
    st.one_of(named_tasks, st.sampled_from([f"t{LAST_TASK}", f"t{2**64}", "", "t-1", "t²"])),
    st.one_of(st.just([0]), st.lists(st.integers(-1, 2), max_size=3)),
    st.one_of(st.just(1), st.sampled_from([0, -1, 4, MOST_VCPUS])),
    st.sampled_from([*FUNCTIONS, "?"]),
    st.booleans(),
    st.tuples(TIMES_US, TIMES_US),
)


def chained(orders: list[Any]) -> Any:
    """Each a standing order of the one before."""
    for earlier, later in reversed(list(pairwise(orders))):
        earlier.then.CopyFrom(later)
    return wire.Order(start=orders[0])


likely_orders = st.lists(task_orders, min_size=1, max_size=3).map(chained)
pool_slices, functions = st.integers(0, 1), st.sampled_from(FUNCTIONS)
node_facts: st.SearchStrategy[PoolEvent] = st.one_of(
    st.builds(ModelLoaded, slice=pool_slices, function=functions),
    st.builds(ModelUnloaded, slice=pool_slices, function=functions, failure=texts),
    st.builds(SliceLost, slice=pool_slices, reason=texts),
    st.builds(SliceBack, slice=pool_slices),
    st.builds(ReloadFunction, function=functions),
    st.builds(FunctionReloaded, function=functions),
    st.builds(ExecutionEnded, task=named_tasks, failure=st.one_of(st.just(""), texts)),
    st.just(Woke()),
)


class Answer(NamedTuple):
    """The slices have carried out what they were asked for longest ago."""

    failure: str


told_a_pool: st.SearchStrategy[Any] = st.integers(0, 3).flatmap(
    [
        likely_orders,
        st.builds(Answer, st.sampled_from(["", "", "broken"])),
        node_facts,
        any_message(wire.Order),
    ].__getitem__
)


def pool_event(told: Any, owed: list[PoolCommand | TaskLeftSlices]) -> PoolEvent | None:
    if isinstance(told, Answer):
        answered = answer(owed.pop(0), told.failure) if owed else None
        if isinstance(answered, TaskLeftSlices):
            owed.append(answered)  # and the rest of it
        return answered
    if not isinstance(told, wire.Order):
        event: PoolEvent = told
        return event
    try:
        order = order_from_wire(told, NODE)
    except Rejected:
        return None
    return order if isinstance(order, PoolEvent) else None  # data orders are the store's


def check_pool(pool: Pool, commands: list[PoolCommand]) -> None:
    running = [task.inventory() for task in pool.running.values()]
    held = [index for task in running for index in task.slices]
    vcpus = sum(task.vcpus for task in running)
    assert len(set(held)) == len(held)
    assert 0 <= pool.vcpus_free == pool.vcpus - vcpus
    for command in commands:
        if isinstance(command, TellScheduler):
            news_from_wire(news_to_wire(command.event), NODE)
    for event in (pool.joined(), pool.report()):
        assert news_from_wire(news_to_wire(event), NODE) == event


@fuzzed()
@given(st.lists(st.tuples(LATER_US, told_a_pool), min_size=8, max_size=25))
def test_a_pool_has_an_answer_to_whatever_a_controller_says(story: list[tuple[int, Any]]) -> None:
    pool = Pool(SMALL, NODE, vcpus=4, memories_mb=(1000, 500))
    now_us, owed = 0, list[PoolCommand | TaskLeftSlices]()
    with within_bounds():
        for later_us, told in story:
            event = pool_event(told, owed)
            if event is not None:
                now_us += later_us
                commands = pool.handle(now_us, event)
                check_pool(pool, commands)
                owed += [c for c in commands if not isinstance(c, TellScheduler)]
