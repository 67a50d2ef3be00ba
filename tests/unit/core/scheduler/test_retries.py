"""Where a job is tried again that has failed before."""

from collections.abc import Callable

from esg.core.catalog.model import Catalog
from esg.core.messages.events import Woke
from esg.core.policies.esg import Engines, Esg
from esg.core.policies.interface import Hold, Offer, QueueView
from esg.core.policies.placement import home
from esg.units import ms
from tests.support.desk import Desk, arrived, failed, finished, joined, lost, started

HOME = home("scan/detect", ("i0", "i1"))
OTHER = "i1" if HOME == "i0" else "i0"


def where(desk: Desk) -> list[str]:
    return [order.invoker for order in started(desk.new_orders)]


def two_failures_here(desk: Desk, vgpus: int = 1) -> Desk:
    """The other node is busy with something long, so both tries of r2 go to the one that fails."""
    desk.at(ms(0), joined(OTHER, vgpus=vgpus), arrived("r1"), joined(HOME, vgpus=1), arrived("r2"))
    assert where(desk) == [OTHER, HOME]
    desk.at(ms(1), failed("t2", HOME))
    assert where(desk) == [HOME]
    return desk.at(ms(2), failed("t3", HOME)).at(ms(100), Woke())


def test_a_job_that_failed_twice_on_a_node_waits_for_another_one(desk: Desk) -> None:
    two_failures_here(desk)
    assert where(desk) == []
    desk.at(ms(150), finished("t1", OTHER, running_us=ms(150)))
    assert where(desk) == [OTHER]


def test_a_job_that_failed_twice_on_the_only_node_is_tried_there_again(desk: Desk) -> None:
    two_failures_here(desk).at(ms(150), lost(OTHER))
    assert where(desk)[0] == HOME


def test_a_job_that_failed_twice_on_a_node_rather_goes_to_a_slow_one(desk: Desk) -> None:
    two_failures_here(desk).at(ms(400), finished("t1", OTHER, running_us=ms(400)))
    assert where(desk) == [OTHER]


class NewestFirst(Esg):
    """A policy that takes the newest jobs."""

    def decide(self, view: QueueView) -> Offer | Hold:
        found = super().decide(view)
        if isinstance(found, Offer):
            found.picks = tuple(reversed(range(len(view.jobs))))
        return found


def newest_first(catalog: Catalog) -> NewestFirst:
    return NewestFirst(catalog, Engines("frontier", group_size=3), k=5)


def test_a_node_is_ruled_out_by_failures_of_the_job_that_goes_alone(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(policy=newest_first)
    two_failures_here(desk).at(ms(101), arrived("r3")).wake()
    assert where(desk) == [HOME]
