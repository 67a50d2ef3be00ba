"""One application's flood does not starve the others."""

from collections.abc import Callable

from esg.core.messages.commands import StartTask
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import ms
from tests.support.desk import Desk, arrived, finished, joined, start

FAIR = SchedulerSettings(prewarm=False, fair_quantum_us=ms(200))


def flooded(desk: Desk, floods: int) -> Desk:
    """One slice, and many requests for `map`, 100 ms each; `thumb` takes 10 ms."""
    desk.at(ms(0), joined("i0", vgpus=1, vcpus=1))
    for n in range(floods):
        desk.at(ms(0), arrived(f"m{n}", "map"))
    return desk


def order_of_work(desk: Desk, tasks: int, *, first: int = 1) -> list[str]:
    """Let tasks run one after the other; returns the applications that were given the slice."""
    found = []
    for n in range(first, first + tasks):
        desk.at(ms(100 * n), finished(f"t{n}"))
        found += [o.decision.application for o in desk.new_orders if isinstance(o, StartTask)]
    return found


def test_applications_that_were_given_less_come_first(open_desk: Callable[..., Desk]) -> None:
    desk = flooded(open_desk(settings=FAIR), 8)
    assert order_of_work(desk, 3) == ["map"] * 3
    for n in range(6):
        desk.at(ms(301), arrived(f"t{n}", "thumb"))
    # `thumb` was idle, so it begins level with `map`, which is then ahead by 200 ms after two turns
    assert order_of_work(desk, 8, first=4).count("thumb") >= 5


def test_policy_alone_decides_without_fair_sharing(desk: Desk) -> None:
    flooded(desk, 8)
    assert order_of_work(desk, 3) == ["map"] * 3
    for n in range(6):
        desk.at(ms(301), arrived(f"t{n}", "thumb"))
    assert order_of_work(desk, 8, first=4) == ["thumb", "map"] * 4


def test_time_without_work_is_not_saved_up(open_desk: Callable[..., Desk]) -> None:
    """Who comes back after a long while does not push the others aside for as long."""
    desk = open_desk(settings=FAIR).at(ms(0), joined("i0", vgpus=1, vcpus=1))
    for n in range(30):
        desk.at(ms(100 * n), arrived(f"m{n}", "map"), arrived(f"n{n}", "map"))
        desk.at(ms(100 * n + 99), finished(f"t{n + 1}"))
    for n in range(30):
        desk.at(ms(3000), arrived(f"s{n}", "scan"))
    found = order_of_work(desk, 12, first=31)
    assert 4 <= found.count("map") <= 8


def test_fair_sharing_changes_nothing_while_there_is_room_for_all(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(settings=FAIR).at(ms(0), joined("i0", vgpus=4))
    desk.at(ms(0), arrived("r1", "scan"), arrived("r2", "thumb"))
    assert desk.new_orders == [
        start("t1", "scan/detect", "r1"),
        start("t2", "thumb/resize", "r2"),
    ]
