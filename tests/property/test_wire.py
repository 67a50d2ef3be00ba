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
from esg.core.messages.task_order import InlinePayload, JobOrder, Output, Payload, TaskOrder
from esg.errors import Rejected
from esg.limits import LONGEST_TASK_US, MOST_INLINE_BYTES
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.wire.checks import check_news
from esg.runtime.wire.convert import (
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

orders = st.one_of(
    st.builds(
        TaskOrder,
        task=times.map(lambda number: f"t{number}"),
        invoker=NODE,
        stage=names,
        function=names,
        config=st.builds(Config, numbers, st.integers(0, 100_000), numbers),
        slices=st.lists(numbers, max_size=3, unique=True).map(tuple),
        jobs=rows(
            st.builds(
                JobOrder,
                request=names,
                inputs=rows(inputs) | st.tuples(inline),
                publish=st.booleans(),
            )
        ),
        keep=st.booleans(),
        predicted_us=times,
    ),
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
