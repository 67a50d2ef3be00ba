"""Models for all stages of an application that is called: what a policy with prewarm_all_stages
gets.

`photo` is resize (300 MB), detect (400 MB), label (300 MB); slices have 1000 MB.
"""

from collections.abc import Callable

from esg.core.catalog.model import Catalog
from esg.core.messages.commands import WarmInstance
from esg.core.policies.interface import Policy
from esg.core.policies.table import policy
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import ms
from tests.support.desk import Desk, arrived, finished, joined, warm


def apex(catalog: Catalog) -> Policy:
    return policy("apex", catalog)


def foreseeing(open_desk: Callable[..., Desk]) -> Desk:
    return open_desk(policy=apex, settings=SchedulerSettings(prewarm=True))


def warmed(desk: Desk) -> list[WarmInstance]:
    return [order for order in desk.new_orders if isinstance(order, WarmInstance)]


def test_the_first_call_has_the_models_of_all_stages_loaded(open_desk: Callable[..., Desk]) -> None:
    desk = foreseeing(open_desk).at(ms(0), joined("i0"), joined("i1"))
    desk.at(ms(1), arrived("r1", "photo"))
    assert warmed(desk) == [
        warm("resize", on="i0", slice=0),
        warm("detect", on="i0", slice=1),
        warm("label", on="i0", slice=0),  # there are two slices
    ]


def test_instances_are_spread_over_the_nodes_as_calls_come_faster(
    open_desk: Callable[..., Desk],
) -> None:
    desk = foreseeing(open_desk).at(ms(0), joined("i0", vgpus=1), joined("i1", vgpus=1))
    desk.at(ms(1), arrived("r1", "photo")).at(ms(11), arrived("r2", "photo"))
    # one call every 10 ms: 4 x 10 / 10 of resize, 40 of detect, 8 of label, as far as there is room
    assert warmed(desk) == [
        warm("resize", on="i1"),
        warm("detect", on="i1"),
        warm("label", on="i1"),
    ]


def test_later_stages_announce_nothing_new(open_desk: Callable[..., Desk]) -> None:
    desk = foreseeing(open_desk).at(ms(0), joined("i0", resident={0: ("resize",)}))
    desk.at(ms(1), arrived("r1", "photo")).at(ms(11), finished("t1"))
    assert warmed(desk) == []
