"""A node's end of its session: what it says, and what it says again."""

import pytest

from esg.core.messages.events import InvokerJoined, InvokerLeaving, TaskFinished
from esg.core.sessions.node_end import NodeNote, NodeReporter
from esg.units import ms

INVENTORY = InvokerJoined(invoker="n0", vcpus=4, slices=())
LEAVING = InvokerLeaving(invoker="n0")


def finished(number: int) -> TaskFinished:
    return TaskFinished(invoker="n0", task=f"t{number}", loading_us=0, running_us=1)


@pytest.fixture
def reporter() -> NodeReporter:
    return NodeReporter("n0", "s1", "digest")


def numbers(reporter: NodeReporter) -> list[int]:
    return [note.number for note in reporter.join(INVENTORY)]


def test_reports_are_numbered_from_one(reporter: NodeReporter) -> None:
    said = [reporter.report(finished(n)) for n in (1, 2)]
    assert said == [NodeNote(1, finished(1)), NodeNote(2, finished(2))]


def test_unacknowledged_reports_are_said_before_the_inventory(reporter: NodeReporter) -> None:
    for number in (1, 2, 3):
        reporter.report(finished(number))
    reporter.acknowledged(1)
    assert reporter.join(INVENTORY) == [
        NodeNote(2, finished(2)),
        NodeNote(3, finished(3)),
        NodeNote(0, INVENTORY),
    ]


def test_what_came_along_is_kept_with_its_report_until_that_is_acknowledged(
    reporter: NodeReporter,
) -> None:
    note = reporter.report(finished(1), {"r1": b"cat"})
    for _ in range(2):
        assert reporter.join(INVENTORY) == [note, NodeNote(0, INVENTORY)]
        reporter.ended()
    assert note is not None
    assert note.brought == {"r1": b"cat"}
    reporter.acknowledged(1)
    assert reporter.unacknowledged == ()


def test_unacknowledged_reports_are_said_again_and_again(reporter: NodeReporter) -> None:
    reporter.report(finished(1))
    assert numbers(reporter) == [1, 0]
    reporter.ended()
    assert numbers(reporter) == [1, 0]
    reporter.acknowledged(1)
    reporter.ended()
    assert numbers(reporter) == [0]


def test_an_acknowledgement_that_says_nothing_new_is_let_pass(reporter: NodeReporter) -> None:
    reporter.report(finished(1))
    reporter.acknowledged(0)
    assert len(reporter.unacknowledged) == 1
    reporter.acknowledged(5)
    reporter.acknowledged(5)
    assert reporter.unacknowledged == ()


def test_a_node_that_starts_afresh_says_nothing_of_its_earlier_life(
    reporter: NodeReporter,
) -> None:
    reporter.report(finished(1))
    reporter.start_afresh()
    assert reporter.report(finished(2)) is None
    assert numbers(reporter) == [0]
    assert reporter.report(finished(3)) == NodeNote(2, finished(3))


def test_a_node_that_leaves_says_so_whenever_it_joins(reporter: NodeReporter) -> None:
    assert reporter.leave() == NodeNote(0, LEAVING)
    for _ in range(2):
        assert reporter.join(INVENTORY) == [NodeNote(0, INVENTORY), NodeNote(0, LEAVING)]
        reporter.ended()


def test_a_node_has_joined_until_its_stream_ends(reporter: NodeReporter) -> None:
    assert not reporter.joined
    reporter.join(INVENTORY)
    assert reporter.joined
    reporter.ended()
    assert not reporter.joined


def test_pauses_between_attempts_double_until_the_node_joins(reporter: NodeReporter) -> None:
    assert [reporter.ended() for _ in range(6)] == [ms(p) for p in (50, 100, 200, 400, 500, 500)]
    reporter.join(INVENTORY)
    assert reporter.ended() == ms(50)
