"""What one end of the wire writes, the other reads, whatever it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esg.core.catalog.config import Config
from esg.core.messages.commands import (
    DiscardData,
    DropInstance,
    InvokerOrder,
    PublishData,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import (
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerLeaving,
    InvokerNews,
    InvokerReported,
    JobFailure,
    MissingInput,
    RunningTask,
    SliceInventory,
    TaskFailed,
    TaskFinished,
)
from esg.core.messages.task_order import (
    AwaitedJob,
    InlinePayload,
    JobOrder,
    Output,
    Payload,
    TaskOrder,
)
from esg.errors import Rejected
from esg.limits import LONGEST_TASK_US, MOST_INLINE_BYTES
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.wire.checks import check_news
from esg.runtime.wire.convert import (
    brought_from_wire,
    news_from_wire,
    news_to_wire,
    order_from_wire,
    order_to_wire,
)

NODE = st.just("node")
names = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(0, 2**31 - 1)
times = st.integers(0, 2**50)
durations = st.integers(0, LONGEST_TASK_US)
few = st.integers(0, 3)


def rows(kind: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(kind, max_size=3).map(tuple)


def can_be(event: InvokerNews) -> bool:
    """Whether it is not refused, as what two slices of one node hold may contradict each other."""
    try:
        check_news(event)
    except Rejected:
        return False
    return True


inputs = st.builds(Payload, key=names) | st.builds(Output, stage=names, invoker=names)
inline = st.builds(InlinePayload, key=names, content=st.binary(min_size=1, max_size=20))
inventories = st.builds(
    SliceInventory,
    memory_mb=st.integers(0, 10**9),
    resident=rows(names),
    loading=rows(names),
    usable=st.booleans(),
)
running = st.builds(RunningTask, task=names, vcpus=few, slices=rows(few))
failures = st.builds(JobFailure, request=names, reason=names, final=st.booleans())
missing = st.builds(MissingInput, request=names, source=inputs)

job = {"request": names, "inputs": rows(inputs) | st.tuples(inline), "publish": st.booleans()}
jobs = st.builds(JobOrder, **job)
inline_jobs = st.builds(AwaitedJob, **job, bring_bytes=st.integers(0, MOST_INLINE_BYTES))


def task_orders(jobs: st.SearchStrategy[object], keep: bool) -> st.SearchStrategy[TaskOrder]:
    return st.builds(
        TaskOrder,
        task=times.map(lambda number: f"t{number}"),
        invoker=NODE,
        stage=names,
        function=names,
        config=st.builds(Config, numbers, st.integers(0, 100_000), numbers),
        slices=st.lists(numbers, max_size=3, unique=True).map(tuple),
        jobs=rows(jobs),
        keep=st.just(keep),
        predicted_us=times,
    )


orders = st.one_of(
    task_orders(jobs, True),
    task_orders(jobs | inline_jobs, False),
    st.builds(StopTask, invoker=NODE, task=names),
    st.builds(WarmInstance, invoker=NODE, slice=numbers, function=names),
    st.builds(DropInstance, invoker=NODE, slice=numbers, function=names),
    st.builds(PublishData, invoker=NODE, request=names, stage=names),
    st.builds(DiscardData, invoker=NODE, request=names, results=st.booleans()),
)
news = st.one_of(
    st.builds(
        InvokerJoined,
        invoker=NODE,
        vcpus=st.integers(0, 100),
        slices=rows(inventories),
        running=rows(running),
        latest_task=times,
        kept=rows(names),
    ),
    st.builds(
        InvokerReported,
        invoker=NODE,
        slices=rows(inventories),
        running=rows(running),
        latest_task=times,
    ),
    st.builds(
        TaskFinished,
        task=names,
        invoker=NODE,
        loading_us=durations,
        running_us=durations,
        failed=rows(failures),
    ),
    st.builds(TaskFailed, task=names, invoker=NODE, reason=names, missing=rows(missing)),
    st.builds(InvokerLeaving, invoker=NODE),
    st.builds(InstanceReady, invoker=NODE, slice=numbers, function=names),
    st.builds(InstanceGone, invoker=NODE, slice=numbers, function=names, reason=names),
).filter(can_be)


@given(st.lists(orders, max_size=5))
def test_orders_arrive_as_they_were_given(given_orders: list[InvokerOrder]) -> None:
    sent = wire.ToInvoker(orders=map(order_to_wire, given_orders)).SerializeToString()
    heard = wire.ToInvoker.FromString(sent).orders
    assert [order_from_wire(order, "node") for order in heard] == given_orders


@given(st.lists(news, max_size=5))
def test_news_arrive_as_they_were_told(told: list[InvokerNews]) -> None:
    sent = wire.FromInvoker(notes=map(news_to_wire, told)).SerializeToString()
    heard = wire.FromInvoker.FromString(sent).notes
    assert [news_from_wire(note, "node") for note in heard] == told


contents = st.dictionaries(names, st.binary(max_size=20), max_size=3)


@given(contents)
def test_what_is_brought_along_arrives_as_it_was_made(brought: dict[str, bytes]) -> None:
    event = TaskFinished(task="t1", invoker="node", loading_us=0, running_us=1)
    heard = wire.InvokerNote.FromString(news_to_wire(event, brought).SerializeToString())
    assert news_from_wire(heard, "node") == event
    assert brought_from_wire(heard) == brought


@pytest.mark.parametrize(
    "sizes", [[MOST_INLINE_BYTES + 1], [MOST_INLINE_BYTES] * 3], ids=["one", "together"]
)
def test_a_report_that_brings_too_much_is_refused(sizes: list[int]) -> None:
    note = wire.InvokerNote(finished=wire.TaskFinished(task="t1"))
    for number, size in enumerate(sizes):
        note.finished.brought.add(request_id=f"r{number}", content=bytes(size))
    with pytest.raises(Rejected, match="must be from 0 to"):
        brought_from_wire(note)


@pytest.mark.parametrize(
    ("keep", "bring_bytes", "why"),
    [
        (True, 1, "not brought along"),
        (False, MOST_INLINE_BYTES + 1, "bring_bytes"),
        (False, -1, "bring_bytes"),
    ],
)
def test_an_order_to_bring_what_cannot_be_is_refused(
    keep: bool, bring_bytes: int, why: str
) -> None:
    job = wire.Job(request_id="r1", publish=True, waited_for=True, bring_bytes=bring_bytes)
    order = wire.Order(start=wire.TaskOrder(task="t1", jobs=[job], keep=keep))
    with pytest.raises(Rejected, match=why):
        order_from_wire(order, "node")


READS_PAYLOAD = wire.Input(payload="@c0ffee")
READS_OUTPUT = wire.Input(output=wire.Output(stage="resize", invoker="node"))


@pytest.mark.parametrize(
    ("inputs", "payload", "words"),
    [
        ([READS_PAYLOAD], bytes(MOST_INLINE_BYTES + 1), "bytes of inline data"),
        ([READS_OUTPUT], b"x", "does not read it alone"),
        ([READS_PAYLOAD, READS_PAYLOAD], b"x", "does not read it alone"),
        ([], b"x", "does not read it alone"),
    ],
    ids=["too large", "not read", "read twice", "no inputs"],
)
def test_a_payload_that_cannot_be_a_jobs_is_refused(
    inputs: list[wire.Input], payload: bytes, words: str
) -> None:
    job = wire.Job(request_id="r1", inputs=inputs, payload=payload)
    order = wire.Order(start=wire.TaskOrder(task="t1", jobs=[job]))
    with pytest.raises(Rejected, match=words):
        order_from_wire(order, "node")
