"""One client's flood does not starve the others: of the same application, or of any."""

from collections.abc import Callable

from esg.core.messages.commands import RefuseRequest, StartTask
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import ms
from tests.support.desk import Desk, arrived, cancelled, finished, joined, refuse, registered, start

OpenDesk = Callable[..., Desk]
FAIR = SchedulerSettings(prewarm=False, fair_quantum_us=ms(200))
UNFAIR = SchedulerSettings(prewarm=False)


def flooded(desk: Desk, floods: int, application: str = "map") -> Desk:
    """One slice, and many requests of one client for `map`, 100 ms each."""
    desk.at(ms(0), joined("i0", vgpus=1, vcpus=1))
    for n in range(floods):
        desk.at(ms(0), arrived(f"flood{n}", application, client="flood"))
    return desk


def work(desk: Desk, tasks: int, *, first: int = 1) -> list[str]:
    """Let tasks run one after the other; returns the requests that were given the slice."""
    found: list[str] = []
    for n in range(first, first + tasks):
        desk.at(ms(100 * n), finished(f"t{n}"))
        starts = [order for order in desk.new_orders if isinstance(order, StartTask)]
        found += [job.request for start in starts for job in start.order.jobs]
    return found


# Of the same application: attack C1.


def test_a_client_does_not_stand_behind_the_flood_of_another(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=FAIR), 20)
    desk.at(ms(10), arrived("calm0", "map", client="calm"))
    desk.at(ms(10), arrived("calm1", "map", client="calm"))
    found = work(desk, 4)
    assert found[0] == "calm0"
    assert "calm1" in found


def test_without_fair_sharing_requests_go_in_the_order_of_their_arrival(
    open_desk: OpenDesk,
) -> None:
    desk = flooded(open_desk(settings=UNFAIR), 6)
    desk.at(ms(10), arrived("calm", "map", client="calm"))
    assert work(desk, 6) == [*(f"flood{n}" for n in range(1, 6)), "calm"]


def test_clients_that_both_have_much_to_do_take_turns(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=FAIR), 9)
    for n in range(8):
        desk.at(ms(1), arrived(f"other{n}", "map", client="other"))
    found = work(desk, 8)
    # one more than half: flood had begun with one
    assert [name for name in found if name.startswith("other")] == [f"other{n}" for n in range(5)]


def test_a_batch_is_filled_up_with_jobs_of_other_clients(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=FAIR), 3, "scan")
    desk.at(ms(10), arrived("calm", client="calm"))
    desk.at(ms(100), finished("t1"))
    assert desk.new_orders[-1] == start("t2", "scan/detect", "calm", "flood1", config=(2, 1, 1))
    used_us = {name: c.vgpu_time_used_us for name, c in desk.scheduler.state.clients.items()}
    assert used_us == {"flood": ms(100 + 75), "calm": ms(75)}


def test_cancelled_requests_leave_their_clients_lanes(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=FAIR), 5)
    desk.at(ms(10), arrived("calm0", "map", client="calm"), arrived("calm1", "map", client="calm"))
    desk.at(ms(20), cancelled("calm0"), cancelled("flood2"))
    assert work(desk, 5) == ["calm1", "flood1", "flood3", "flood4"]


# With many applications: attack C2.


def many_applications(desk: Desk) -> Desk:
    desk.at(ms(0), joined("i0", vgpus=1, vcpus=1))
    for n in range(12):
        desk.at(ms(0), registered(f"own{n}", "depth", slo_us=ms(300)))
    for n in range(24):
        desk.at(ms(0), arrived(f"flood{n}", f"own{n % 12}", client="flood"))
    return desk


def test_who_has_more_applications_gets_no_more(open_desk: OpenDesk) -> None:
    desk = many_applications(open_desk(settings=FAIR))
    for n in range(10):
        desk.at(ms(1), arrived(f"calm{n}", "map", client="calm"))
    found = work(desk, 16)
    assert 6 <= sum(name.startswith("calm") for name in found) <= 10


def test_the_applications_of_one_client_share_what_it_is_given(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=FAIR), 12)
    for n in range(12):
        desk.at(ms(1), arrived(f"own{n}", "watch", client="flood"))
        desk.at(ms(1), arrived(f"other{n}", "map", client="other"))
    found = work(desk, 16)
    counts = [sum(name.startswith(who) for name in found) for who in ("flood", "own", "other")]
    assert counts[2] >= 6
    assert min(counts[:2]) >= 3


# What is remembered.


def test_who_comes_back_is_behind_those_who_have_work_by_no_more_than_a_credit(
    open_desk: OpenDesk,
) -> None:
    desk = flooded(open_desk(settings=FAIR), 20)
    work(desk, 14)
    desk.at(ms(1410), arrived("calm", "map", client="calm"))
    clients = desk.scheduler.state.clients
    assert clients["flood"].vgpu_time_used_us == ms(1500)
    assert clients["calm"].vgpu_time_used_us == ms(500)


def test_a_credit_is_used_up(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=FAIR), 40)
    work(desk, 14)
    for n in range(20):
        desk.at(ms(1410), arrived(f"calm{n}", "map", client="calm"))
    found = work(desk, 16, first=15)
    assert found[:10] == [f"calm{n}" for n in range(10)]
    assert sum(name.startswith("calm") for name in found[10:]) == 3


def test_a_client_without_work_is_forgotten_once_others_were_given_as_much_and_a_credit(
    open_desk: OpenDesk,
) -> None:
    desk = flooded(open_desk(settings=FAIR), 20)
    desk.at(ms(1), arrived("calm", "map", client="calm"))
    work(desk, 10)  # the second was calm's, which is at 100 ms
    desk.at(ms(1001), arrived("third", "map", client="third"))
    assert list(desk.scheduler.state.clients) == ["flood", "calm", "third"]
    desk.at(ms(1002), cancelled("third"))
    work(desk, 1, first=11)
    desk.at(ms(1101), arrived("fourth", "map", client="fourth"))
    assert list(desk.scheduler.state.clients) == ["flood", "fourth"]


def test_a_client_without_work_is_remembered_as_long_as_that_makes_a_difference(
    open_desk: OpenDesk,
) -> None:
    desk = open_desk(settings=FAIR).at(ms(0), joined("i0", vgpus=2, vcpus=2))
    desk.at(ms(0), arrived("r1", "thumb", client="calm"), arrived("r2", "thumb", client="big"))
    desk.at(ms(5), finished("t2")).at(ms(6), arrived("r3", "thumb", client="third"))
    clients = desk.scheduler.state.clients
    assert {name: client.vgpu_time_used_us for name, client in clients.items()} == {
        "calm": ms(10),
        "big": ms(10),
        "third": ms(10),
    }


def test_who_was_given_how_much_is_forgotten_when_nobody_has_work(open_desk: OpenDesk) -> None:
    desk = open_desk(settings=FAIR).at(ms(0), joined("i0", vgpus=1, vcpus=1))
    for n in range(20):
        desk.at(ms(100 * n), arrived(f"r{n}", "map", client=f"client{n}"))
        desk.at(ms(100 * n + 99), finished(f"t{n + 1}"))
    assert list(desk.scheduler.state.clients) == ["client19"]


# How long a client may wait.


def waiting_at_most(max_wait_us: int) -> SchedulerSettings:
    return SchedulerSettings(prewarm=False, fair_quantum_us=ms(200), max_wait_us=max_wait_us)


def test_waiting_is_bounded_as_time(open_desk: OpenDesk) -> None:
    """100 ms each, by the profile: of the flood, four are done within 400 ms."""
    desk = flooded(open_desk(settings=waiting_at_most(ms(400))), 4)
    desk.at(ms(1), arrived("flood4", "map", client="flood"))
    assert desk.new_orders == [
        refuse(
            "flood4",
            reason="map would take about 500 ms now, with 4 requests under way; the longest wait "
            "is 400 ms; try again in 100 ms",
            retry_after_us=ms(100),
        )
    ]


def test_who_comes_back_when_told_is_let_in(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=waiting_at_most(ms(400))), 4)
    desk.at(ms(1), arrived("flood4", "map", client="flood"))
    desk.at(ms(100), finished("t1")).at(ms(101), arrived("flood4", "map", client="flood"))
    assert desk.new_orders == []
    assert "flood4" in desk.scheduler.state.requests


def test_one_clients_waiting_is_not_held_against_another(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=waiting_at_most(ms(400))), 9)
    refused = [o.request for o in desk.orders if isinstance(o, RefuseRequest)]
    assert refused == [f"flood{n}" for n in range(4, 9)]
    desk.at(ms(1), arrived("calm", "map", client="calm"))
    assert desk.new_orders == []


def test_the_longest_wait_goes_by_how_often_requests_were_answered(open_desk: OpenDesk) -> None:
    """The profile says 100 ms; they take 200."""
    desk = flooded(open_desk(settings=waiting_at_most(ms(1000))), 7)
    desk.at(ms(200), finished("t1")).at(ms(400), finished("t2"))
    desk.at(ms(401), arrived("late", "map", client="flood"))
    assert desk.new_orders == [refuse("late", retry_after_us=ms(200))]


def test_a_time_without_nodes_is_not_held_against_what_comes_later(open_desk: OpenDesk) -> None:
    desk = flooded(open_desk(settings=waiting_at_most(ms(1000))), 3)
    desk.at(ms(100), finished("t1")).at(ms(60_000), finished("t2")).at(ms(60_100), finished("t3"))
    desk.at(ms(61_000), arrived("alone", "map", client="flood")).at(ms(61_100), finished("t4"))
    for n in range(3):
        desk.at(ms(62_000), arrived(f"later{n}", "map", client="flood"))
    assert not any(isinstance(order, RefuseRequest) for order in desk.orders)


def test_one_clients_full_queue_is_not_held_against_another(open_desk: OpenDesk) -> None:
    settings = SchedulerSettings(prewarm=False, fair_quantum_us=ms(200), max_waiting=3)
    desk = flooded(open_desk(settings=settings), 6)
    assert [o.request for o in desk.orders if isinstance(o, RefuseRequest)] == ["flood4", "flood5"]
    desk.at(ms(1), arrived("calm", "map", client="calm"))
    assert desk.new_orders == []


def test_clients_with_more_than_their_share_are_refused_when_all_have_too_many(
    open_desk: OpenDesk,
) -> None:
    settings = SchedulerSettings(prewarm=False, fair_quantum_us=ms(200), max_waiting_in_all=6)
    desk = flooded(open_desk(settings=settings), 4)
    for n in range(3):
        desk.at(ms(1), arrived(f"own{n}", "scan", client="flood"))
    desk.at(ms(2), arrived("calm0", "map", client="calm"), arrived("calm1", "map", client="calm"))
    assert desk.new_orders == []
    # two clients, three jobs each; and of flood's three, half for `map`, of which three wait
    desk.at(ms(3), arrived("more", "map", client="flood"))
    assert desk.new_orders == [refuse("more", retry_after_us=ms(200))]
