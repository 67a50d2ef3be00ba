"""A request for what all stages make: every output is kept for the next stage, and is a result."""

from esg.core.messages.events import Event, RequestArrived
from esg.core.messages.outcome import Outcome
from esg.units import ms
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    failed,
    finished,
    job,
    joined,
    lost,
    publish,
    start,
)


def arrived_for_all(request: str, application: str = "photo") -> Event:
    return RequestArrived(request=request, application=application, all_stages=True)


def test_stages_that_others_read_publish_as_well(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived_for_all("r1"))
    desk.at(ms(10), finished("t1")).at(ms(20), finished("t2")).at(ms(30), finished("t3"))
    assert desk.orders == [
        start("t1", "photo/resize", job("r1", publish=True), keep=True),
        start("t2", "photo/detect", job("r1", resize="i0", publish=True), keep=True),
        start("t3", "photo/label", job("r1", detect="i0", publish=True), keep=False),
        answer("r1", results=("resize", "detect", "label")),
        discard("i0", "r1"),
    ]


def test_other_requests_in_the_batch_publish_their_last_stage_only(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", memory_mb=300), arrived_for_all("r1"), arrived("r2", "photo"))
    desk.at(ms(10), finished("t1"), finished("t2")).at(ms(12), joined("i1"))
    mixed = job("r1", resize="i0", publish=True), job("r2", resize="i0", publish=False)
    assert desk.new_orders == [
        publish("r2/resize", on="i0"),
        start("t3", "photo/detect", *mixed, on="i1"),
    ]
    desk.at(ms(20), finished("t3", on="i1")).at(ms(30), finished("t4", on="i1"))
    assert answer("r2", results=("label",)) in desk.new_orders


def test_published_output_is_not_published_again_for_another_node(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", memory_mb=300), arrived_for_all("r1"), joined("i1"))
    desk.at(ms(10), finished("t1"))
    assert desk.new_orders == [
        start("t2", "photo/detect", job("r1", resize="i0", publish=True), on="i1")
    ]


def test_published_output_outlives_its_node(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived_for_all("r1")).at(ms(10), finished("t1"))
    desk.at(ms(11), joined("i1")).at(ms(12), lost("i0"))
    assert desk.new_orders[-1] == start(
        "t3", "photo/detect", job("r1", resize="", publish=True), on="i1"
    )


def test_results_of_a_request_that_comes_to_nothing_are_discarded(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived_for_all("r1")).at(ms(10), finished("t1"))
    desk.at(ms(12), cancelled("r1"))
    assert desk.new_orders[-2:] == [
        answer("r1", Outcome.CANCELLED, results=()),
        discard("i0", "r1", results=True),
    ]
    desk.at(ms(13), failed("t2", reason="stopped"))
    assert desk.new_orders == []
