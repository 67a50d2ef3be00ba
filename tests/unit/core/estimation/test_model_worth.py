"""What a model is worth keeping: the loading it saves, by how often it is called."""

from dataclasses import replace

import pytest

from esg.core.catalog.model import Catalog
from esg.core.estimation.ewma import observe_interval
from esg.core.estimation.load_times import expected_load_us, observe_load
from esg.core.estimation.model_worth import ModelWorth
from esg.core.scheduler.registry import Registry
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import State
from esg.units import ms, seconds
from tests.support.small_catalog import DETECT, SMALL


def worths(
    calls_s: dict[str, list[float]], *, now_s: float, catalog: Catalog = SMALL
) -> ModelWorth:
    """After calls of one-stage applications at these times."""
    state = State()
    Registry(catalog, state)
    for name, times_s in calls_s.items():
        for at_s in times_s:
            observe_interval(state.queues[name].arrivals, seconds(at_s))
    state.now_us = seconds(now_s)
    return ModelWorth(catalog, state)


def test_what_is_called_often_and_takes_long_to_load_is_worth_most() -> None:
    often = [0, 1, 2, 3]
    worth = worths({"scan/detect": often, "thumb/resize": often, "map/depth": [0, 3]}, now_s=3)
    # loading them takes 200, 40 and 300 ms, and they need 400, 300 and 500 MB
    assert worth.of("detect") == pytest.approx(ms(200) / 400)
    assert worth.of("resize") == pytest.approx(ms(40) / 300)
    assert worth.of("depth") == pytest.approx(ms(300) / 500 / 3)


def test_calls_of_all_applications_count() -> None:
    alone = worths({"scan/detect": [0, 2]}, now_s=2).of("detect")
    both = worths({"scan/detect": [0, 2], "watch/detect": [0, 2]}, now_s=2).of("detect")
    assert both == pytest.approx(2 * alone)


def test_what_is_overdue_is_worth_less_and_less_and_what_was_never_called_nothing() -> None:
    calls = {"scan/detect": [0, 1, 2]}
    later = [worths(calls, now_s=now_s).of("detect") for now_s in (2, 3, 12, 102)]
    assert later == pytest.approx([later[0], later[0], later[0] / 10, later[0] / 100])
    assert worths({}, now_s=5).of("detect") == 0
    assert worths({}, now_s=5).of("no such function") == 0


def test_one_of_many_instances_is_worth_less() -> None:
    worth = worths({"scan/detect": [0, 1]}, now_s=1)
    alone = worth.of("detect")
    node = NodeBooks.of("i0", 4, [1000, 1000])
    worth._state.add_node(node)
    for index in (0, 1):
        node.load(index, "detect", 400, 0, ready=True)
    assert worth.of("detect") == pytest.approx(alone / 2)


def test_it_goes_by_what_loading_it_again_takes() -> None:
    functions = SMALL.functions | {"detect": replace(DETECT, reload_us=ms(50))}
    catalog = replace(SMALL, functions=functions)
    worth = worths({"scan/detect": [0, 1]}, now_s=1, catalog=catalog)
    assert worth.of("detect") == pytest.approx(ms(50) / 400)
    observe_load(worth._state, "detect", ms(80), again=True)
    assert worth.of("detect") == pytest.approx(ms(80) / 400)
    assert expected_load_us(worth._state, functions["detect"], again=False) == ms(200)


def test_the_model_of_least_worth_goes_although_another_was_used_before_it() -> None:
    node = NodeBooks.of("i0", 4, [1000])
    node.load(0, "detect", 400, seconds(1), ready=True)
    node.load(0, "resize", 300, seconds(9), ready=True)
    worth = {"detect": 0.5, "resize": 0.1}.__getitem__
    assert node.load(0, "depth", 500, seconds(10), worth=worth) == ["resize"]
    assert node.load(0, "label", 300, seconds(11)) == [
        "detect"
    ]  # by age alone, where none is known
