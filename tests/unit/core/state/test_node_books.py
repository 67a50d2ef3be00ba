"""The books of one invoker: nothing is given twice, and nothing is taken back that is not held."""

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.slice_kinds import USUAL
from esg.core.state.node_books import NodeBooks, SliceBooks
from esg.errors import Bug


def node(vcpus: int = 4, memories_mb: tuple[int, ...] = (1000, 1000)) -> NodeBooks:
    return NodeBooks.of("i0", vcpus, memories_mb)


def test_taken_resources_are_not_free_until_they_are_released() -> None:
    books = node()
    taken = books.take("t1", "detect", 400, Config(1, 3, 1), now_us=5)
    assert (taken.slices, taken.dropped) == ((0,), [])
    assert (books.vcpus_free, books.vgpus_free) == (1, 1)
    assert not books.fits(Config(1, 2, 1))
    assert books.fits(Config(1, 1, 1))
    books.release("t1", 3, taken.slices)
    assert (books.vcpus_free, books.vgpus_free) == (4, 2)
    assert books.instances == {"detect": 1}  # the model stays


@pytest.mark.parametrize("config", [Config(1, 5, 1), Config(1, 1, 3)])
def test_resources_beyond_what_a_node_has_cannot_be_taken(config: Config) -> None:
    books = node()
    with pytest.raises(Bug, match="i0 cannot give"):
        books.take("t1", "detect", 400, config, now_us=0)


def test_slices_without_memory_for_the_model_cannot_be_taken() -> None:
    books = node(memories_mb=(300, 1000))
    assert books.pick("detect", 400, 1, USUAL) == [1]
    assert books.pick("detect", 400, 2, USUAL) is None
    with pytest.raises(Bug, match="i0 cannot give"):
        books.take("t1", "detect", 400, Config(1, 1, 2), now_us=0)


@pytest.mark.parametrize("picked", [[0], [0, 1], [1]])
def test_slices_that_were_picked_are_taken_only_if_they_are_free_and_as_many(
    picked: list[int],
) -> None:
    books = NodeBooks.of("i0", 8, (1000, 1000, 1000))
    books.take("t1", "detect", 400, Config(1, 1, 1), 0, [0])
    with pytest.raises(Bug):
        books.take("t2", "detect", 400, Config(1, 1, 2), 0, picked)
    assert books.take("t3", "detect", 400, Config(1, 1, 2), 0, [1, 2]).slices == (1, 2)


def test_slice_is_given_back_by_its_holder_alone() -> None:
    books = node()
    books.take("t1", "detect", 400, Config(1, 1, 1), now_us=0)
    with pytest.raises(Bug, match="slice 0 is held by 't1', not by t2"):
        books.release("t2", 1, (0,))
    with pytest.raises(Bug, match="slice 1 is held by '', not by t1"):
        books.release("t1", 1, (1,))


def test_the_longest_unused_models_go_first_and_no_more_than_needed() -> None:
    books = node(memories_mb=(1000,))
    for used_us, name in ((30, "a"), (10, "b"), (20, "c")):
        books.load(0, name, 300, used_us, ready=True)
    part = books.slices[0]
    assert part.evictable(100) == []
    assert part.evictable(400) == ["b"]
    assert part.evictable(401) == ["b", "c"]
    assert part.evictable(1000) == ["b", "c", "a"]
    assert part.evictable(1001) is None


def test_evicted_model_is_the_first_by_name_of_those_unused_for_equally_long() -> None:
    books = node(memories_mb=(1000,))
    for name in ("b", "c", "a"):
        books.load(0, name, 300, 0, ready=True)
    assert books.slices[0].evictable(200) == ["a"]


def test_a_model_that_is_being_loaded_never_goes() -> None:
    books = node(memories_mb=(1000,))
    books.load(0, "a", 600, 0)
    assert books.slices[0].evictable(500) is None
    with pytest.raises(Bug, match="has no room"):
        books.load(0, "b", 500, 1)
    books.mark_ready(0, "a", 2)
    assert books.load(0, "b", 500, 3) == ["a"]
    assert books.slices[0].memory_free_mb == 500


def test_being_taken_makes_a_model_recently_used() -> None:
    books = node(memories_mb=(1000,))
    books.load(0, "a", 300, 0, ready=True)
    books.load(0, "b", 300, 1, ready=True)
    books.take("t1", "a", 300, Config(1, 1, 1), now_us=2)
    assert books.slices[0].evictable(500) == ["b"]


def test_forgetting_gives_the_memory_back_once() -> None:
    books = node(memories_mb=(1000, 1000))
    books.load(0, "a", 300, 0)
    books.load(1, "a", 300, 0)
    assert books.instances == {"a": 2}
    books.forget(0, "a")
    books.forget(0, "a")
    assert books.instances == {"a": 1}
    assert books.slices[0] == SliceBooks(1000, 1000)
    books.forget(1, "a")
    assert books.instances == {}


def test_a_held_slice_is_neither_warm_nor_free() -> None:
    books = node()
    books.load(0, "a", 300, 0, ready=True)
    books.load(1, "a", 300, 0)
    assert books.warm_free("a", 2, USUAL) == [0]
    books.take("t1", "a", 300, Config(1, 1, 1), now_us=1)
    assert books.warm_free("a", 2, USUAL) == []
    assert books.pick("a", 300, 1, USUAL) == [1]  # loading, which is better than cold
    assert books.pick("a", 300, 2, USUAL) is None


def test_a_slice_that_is_out_of_order_is_given_to_nobody_and_has_no_models() -> None:
    books = node()
    books.load(0, "detect", 400, now_us=0, ready=True)
    books.set_usable(0, False)
    assert (books.vgpus_free, books.instances) == (1, {})
    assert books.slices[0].memory_free_mb == 1000
    assert books.pick("detect", 400, 1, USUAL) == [1]
    assert books.pick("detect", 400, 2, USUAL) is None
    books.set_usable(0, False)
    assert books.vgpus_free == 1
    books.set_usable(0, True)
    assert books.vgpus_free == 2


def test_slice_that_fails_while_it_is_held_is_given_back_unusable() -> None:
    books = node()
    books.take("t1", "detect", 400, Config(1, 1, 2), now_us=0)
    books.set_usable(1, False)
    assert (books.vgpus_free, books.instances) == (0, {"detect": 1})
    books.release("t1", 1, (0, 1))
    assert books.vgpus_free == 1
    books.set_usable(1, True)
    assert books.vgpus_free == 2


def test_a_slice_may_be_back_while_it_is_still_held() -> None:
    books = node()
    books.take("t1", "detect", 400, Config(1, 1, 1), now_us=0)
    books.set_usable(0, False)
    books.set_usable(0, True)
    assert books.vgpus_free == 1
    books.release("t1", 1, (0,))
    assert books.vgpus_free == 2


def promised(until_us: int = 50) -> NodeBooks:
    """With a model on both slices, and a task on the first, which is to leave it then."""
    books = node()
    for index in (0, 1):
        books.load(index, "detect", 400, now_us=0, ready=True)
    books.give("t1", 1, [0])
    books.promise("t1", [0], until_us)
    return books


def test_a_promised_slice_is_free_and_the_last_choice() -> None:
    books = promised()
    assert (books.vgpus_free, books.promised) == (2, 1)
    assert books.warm_free("detect", 2, USUAL) == books.pick("detect", 400, 2, USUAL) == [1, 0]
    assert (books.count_warm_idle("detect", USUAL), books.next_warm_us("detect", USUAL)) == (1, 50)
    assert books.tasks() == ["t1"]


def test_it_is_promised_to_one_task_only() -> None:
    books = promised()
    books.take("t2", "detect", 400, Config(1, 1, 2), now_us=1)
    assert books.vgpus_free == 0
    books.promise("t2", [0, 1], 90)  # on the first, somebody else still is
    assert books.vgpus_free == 1
    assert [(part.ahead, part.holder) for part in books.slices] == [("t1", "t2"), ("t2", "")]
    assert books.tasks() == ["t1", "t2"]


def test_who_leaves_it_leaves_it_to_the_next_one() -> None:
    books = promised()
    books.take("t2", "detect", 400, Config(1, 1, 2), now_us=1)
    books.release("t1", 1, (0,))
    assert (books.promised, books.vgpus_free) == (0, 0)
    books.release("t2", 1, (0, 1))
    assert (books.vcpus_free, books.vgpus_free) == (books.vcpus, 2)


def test_no_model_is_loaded_in_place_of_another_where_somebody_is() -> None:
    books = promised()
    assert books.pick("large", 900, 1, USUAL) == [1]
    assert books.pick("large", 900, 2, USUAL) is None
    books.give("t2", 0, [1])
    assert books.pick("large", 900, 1, USUAL) is None


def test_a_promised_slice_may_fail_and_come_back() -> None:
    books = promised()
    books.set_usable(0, False)
    assert (books.vgpus_free, books.warm_free("detect", 2, USUAL)) == (1, [1])
    books.set_usable(0, True)
    books.release("t1", 1, (0,))
    assert (books.vgpus_free, books.promised) == (2, 0)
