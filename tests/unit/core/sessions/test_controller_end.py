"""The controller's end of a node's session: who is welcome, who may come back, who is lost."""

import pytest

from esg.core.messages.events import (
    InvokerJoined,
    InvokerLeaving,
    InvokerLost,
    SliceInventory,
    TaskFinished,
)
from esg.core.sessions.controller_end import (
    GivenUp,
    Greeting,
    GreetingRefused,
    NodeSessions,
    Welcome,
    remember,
    session_memo,
)
from esg.core.sessions.settings import SessionSettings
from esg.units import ms

REPORT = TaskFinished(invoker="n0", task="t1", loading_us=0, running_us=1)


def inventory() -> InvokerJoined:
    return InvokerJoined(invoker="n0", vcpus=4, slices=(SliceInventory(memory_mb=1000),))


class Door:
    """Sessions with short time-outs, and one node that greets."""

    def __init__(self) -> None:
        times = SessionSettings(lost_after_us=ms(200), rejoin_us=ms(100), return_us=ms(300))
        self.sessions = NodeSessions("digest", times)

    def welcome(self, at_us: int, session: str = "s1") -> Welcome:
        answer = self.sessions.greet(at_us, Greeting("n0", session, "digest"))
        assert isinstance(answer, Welcome)
        return answer

    def joined(self, at_us: int, session: str = "s1") -> Welcome:
        welcome, event = self.welcome(at_us, session), inventory()
        assert welcome.session.take(0, event)
        self.sessions.scheduled(event)
        return welcome

    def refused(self, at_us: int, *greeting: str) -> GreetingRefused:
        answer = self.sessions.greet(at_us, Greeting(*greeting))
        assert isinstance(answer, GreetingRefused)
        return answer

    def wake(self) -> tuple[int | None, list[GivenUp]]:
        at_us = self.sessions.next_wake
        return at_us, [] if at_us is None else self.sessions.wake(at_us)


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_newcomer_is_to_start_afresh_and_gets_no_orders_yet(door: Door) -> None:
    assert door.welcome(0).start_afresh
    assert not door.sessions.reachable("n0")


def test_orders_go_to_a_node_once_the_scheduler_has_heard_of_its_inventory(door: Door) -> None:
    session, event = door.welcome(0).session, inventory()
    session.take(0, event)
    assert not door.sessions.reachable("n0")
    door.sessions.scheduled(inventory())  # an equal one, from another time
    assert not door.sessions.reachable("n0")
    door.sessions.scheduled(event)
    assert door.sessions.reachable("n0")


def test_a_node_without_a_name_or_with_other_functions_is_refused_for_good(door: Door) -> None:
    assert "needs a name" in door.refused(0, "", "s1", "digest").reason
    assert "needs a name" in door.refused(0, "\n", "s1", "digest").reason
    refused = door.refused(0, "n0", "s1", "other")
    assert "same catalog" in refused.reason
    assert not refused.passing


def test_a_second_process_of_a_name_is_refused_while_the_first_has_a_stream(door: Door) -> None:
    first = door.joined(0)
    assert door.refused(1, "n0", "s2", "digest").passing
    assert door.sessions.hear(2, first.session, first.stream)
    assert door.sessions.reachable("n0")


def test_a_node_that_comes_back_in_time_goes_on_with_all_it_has(door: Door) -> None:
    first = door.joined(0)
    door.sessions.ended(ms(10), first.session, first.stream)
    assert not door.sessions.reachable("n0")
    assert door.sessions.next_wake == ms(110)
    assert door.sessions.wake(ms(109)) == []
    second = door.welcome(ms(109))
    assert (second.session, second.start_afresh, second.given_up) == (first.session, False, None)


def test_a_node_that_does_not_come_back_in_time_is_given_up(door: Door) -> None:
    first = door.joined(0)
    door.sessions.ended(ms(10), first.session, first.stream)
    assert door.wake() == (ms(110), [GivenUp("n0", "its connection broke", left=False)])
    assert door.sessions.next_wake is None
    later = door.welcome(ms(111))
    assert later.start_afresh
    assert later.session is not first.session


def test_a_node_that_is_silent_for_too_long_is_given_up_and_not_heard_any_more(door: Door) -> None:
    first = door.joined(0)
    assert door.sessions.hear(ms(50), first.session, first.stream)
    assert door.wake() == (ms(250), [GivenUp("n0", "silent for too long", left=False)])
    assert not door.sessions.hear(ms(251), first.session, first.stream)
    assert not door.sessions.reachable("n0")


def test_a_node_is_told_to_start_afresh_until_it_has_joined(door: Door) -> None:
    """Its first welcome may have been lost with the stream."""
    first = door.welcome(0)
    door.sessions.ended(1, first.session, first.stream)
    second = door.welcome(2)
    assert second.start_afresh
    second.session.take(0, inventory())
    door.sessions.ended(3, second.session, second.stream)
    assert not door.welcome(4).start_afresh


def test_a_new_stream_takes_the_place_of_one_that_broke_unnoticed(door: Door) -> None:
    first = door.joined(0)
    second = door.welcome(ms(1))
    assert not second.start_afresh
    assert not door.sessions.reachable("n0")  # until it has joined there, too
    assert not door.sessions.hear(ms(2), first.session, first.stream)
    door.sessions.ended(ms(3), first.session, first.stream)  # noticed at last
    assert door.sessions.hear(ms(4), second.session, second.stream)
    assert door.sessions.next_wake == ms(204)


def test_an_inventory_from_before_a_stream_broke_brings_no_orders_to_the_next(door: Door) -> None:
    first, event = door.welcome(0), inventory()
    first.session.take(0, event)
    door.welcome(1)
    door.sessions.scheduled(event)
    assert not door.sessions.reachable("n0")


def test_new_process_of_a_node_gives_the_old_one_up_and_its_numbers_count_anew(
    door: Door,
) -> None:
    first = door.joined(0)
    assert first.session.take(7, REPORT)
    door.sessions.ended(1, first.session, first.stream)
    second = door.joined(2, "s2")
    assert second.start_afresh
    assert second.given_up == GivenUp("n0", "started again", left=False)
    assert second.session.take(1, REPORT)


def test_a_report_is_taken_once_and_acknowledged_when_it_is_durable(door: Door) -> None:
    session = door.joined(0).session
    assert session.take(1, REPORT)
    assert session.take(2, REPORT)
    assert session.durable_number == 0
    session.acknowledge(1)
    assert session.durable_number == 1
    assert not session.take(2, REPORT)  # said again on another stream
    assert session.take(3, REPORT)


def test_heartbeats_have_no_number_and_are_taken_every_time(door: Door) -> None:
    session = door.joined(0).session
    session.take(5, REPORT)
    for _ in range(2):
        assert session.take(0, REPORT)
    session.acknowledge(0)
    assert (session.heard_number, session.durable_number) == (5, 0)


def test_a_node_that_leaves_is_given_up_when_its_stream_ends(door: Door) -> None:
    first = door.joined(0)
    assert first.session.take(0, InvokerLeaving(invoker="n0"))
    door.sessions.ended(ms(10), first.session, first.stream)
    assert door.wake() == (ms(10), [GivenUp("n0", "left", left=True)])


@pytest.mark.parametrize(("session", "afresh"), [("s1", False), ("s2", True)])
def test_node_process_known_before_a_restart_of_the_controller_alone_goes_on(
    door: Door, session: str, afresh: bool
) -> None:
    door.sessions.expect(ms(1000), {"n0": "s1"})
    assert door.sessions.next_wake == ms(1300)
    welcome = door.welcome(ms(1299), session)
    assert welcome.start_afresh is afresh
    assert (welcome.given_up is not None) is afresh


def test_a_node_that_a_new_controller_waits_for_in_vain_is_given_up(door: Door) -> None:
    door.sessions.expect(ms(1000), {"n0": "s1", "n1": "s1"})
    door.joined(ms(1200))
    assert [g.node for g in door.sessions.wake(ms(1300))] == ["n1"]


def test_nodes_whose_time_is_over_are_given_up_and_others_are_not(door: Door) -> None:
    door.sessions.expect(0, {"n1": "s1"})
    door.joined(0)
    assert [g.node for g in door.sessions.wake(ms(200))] == ["n0"]
    assert door.sessions.next_wake == ms(300)


def test_a_journal_comes_to_the_sessions_of_those_who_joined_and_are_not_lost() -> None:
    sessions: dict[str, str] = {}
    remember(sessions, inventory(), session_memo("s1"))
    remember(sessions, REPORT, None)
    assert sessions == {"n0": "s1"}
    remember(sessions, inventory(), session_memo("s2"))
    assert sessions == {"n0": "s2"}
    remember(sessions, InvokerLost(invoker="n0"), None)
    remember(sessions, InvokerLost(invoker="n0"), None)
    assert sessions == {}
