"""A task's inputs, and where they come from."""

from esg.core.catalog.config import Config
from esg.core.messages.task_order import Input, JobOrder, Output, Payload, TaskOrder

HERE = Output(stage="a", invoker="i0")
ELSEWHERE = Output(stage="a", invoker="i1")
OUTLIVED = Output(stage="a", invoker="")


def order(*inputs: tuple[Input, ...]) -> TaskOrder:
    return TaskOrder(
        task="t1",
        invoker="i0",
        stage="b",
        function="f",
        config=Config(len(inputs), 1, 1),
        slices=(0,),
        jobs=tuple(JobOrder(request=f"r{n}", inputs=row) for n, row in enumerate(inputs)),
        keep=True,
        predicted_us=1,
    )


def test_an_output_is_local_to_the_node_that_keeps_it_alone() -> None:
    assert HERE.is_local_to("i0")
    assert not HERE.is_local_to("i1")
    assert not OUTLIVED.is_local_to("i0")


def test_a_payload_is_neither_a_local_nor_a_remote_input() -> None:
    assert order((Payload(),), (Payload(key="@c0"),)).count_inputs() == (2, 0, 0)


def test_inputs_of_all_jobs_are_counted_by_where_they_come_from() -> None:
    counts = order((HERE, ELSEWHERE), (ELSEWHERE, OUTLIVED)).count_inputs()
    assert counts == (0, 1, 3)
