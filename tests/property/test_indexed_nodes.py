"""Indexes over nodes say what a look at every node would, whatever happened to them."""

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from esg.core.catalog.config import Config
from esg.core.state.indexed_nodes import IndexedNodes, NodeIndex
from esg.core.state.node_books import NodeBooks, SliceBooks
from esg.core.state.state import State

FUNCTIONS = {"resize": 300, "detect": 500, "label": 700}
NAMES = ("i0", "i1", "i10", "i2")
SLICES = 3

Step = tuple[str, str, int, str]

steps = st.lists(
    st.tuples(
        st.sampled_from(
            (
                *("take", "promise", "release", "load", "ready", "forget"),
                *("lose", "repair", "fail", "retry"),
            )
        ),
        st.sampled_from(NAMES),
        st.integers(0, SLICES - 1),
        st.sampled_from(sorted(FUNCTIONS)),
    ),
    max_size=40,
)


def make_nodes() -> dict[str, NodeBooks]:
    return {name: NodeBooks.of(name, 4 + len(name), [1000] * SLICES) for name in NAMES}


def change(node: NodeBooks, what: str, index: int, function: str, now_us: int) -> None:
    """Do one thing to a node, if it can be done."""
    part, memory_mb = node.slices[index], FUNCTIONS[function]
    config = Config(1, 1 + index, 1)
    match what:
        case "take":
            if node.fits(config) and node.pick(function, memory_mb, 1) is not None:
                node.take(f"t{now_us}-{config.vcpus}", function, memory_mb, config, now_us)
        case "release":
            if task := part.ahead or part.holder:
                node.release(task, int(task.partition("-")[2]), (index,))
        case "promise":
            if part.holder:
                node.promise(part.holder, (index,), now_us + 1 + index)
        case "load":
            if part.can_load(function, memory_mb):
                node.load(index, function, memory_mb, now_us, ready=bool(now_us % 2))
        case "ready":
            node.mark_used(index, function, now_us)
        case "forget":
            node.forget(index, function)
        case "lose" | "repair":
            node.set_usable(index, what == "repair")
        case "fail":
            node.forget(index, function)
            node.quarantine_load(index, function, now_us + 5)
        case _:
            node.release_loads(now_us)


def first(nodes: Sequence[NodeBooks], key: Callable[[NodeBooks], tuple[int, ...]]) -> str | None:
    found = min(nodes, key=lambda node: (*key(node), node.invoker), default=None)
    return None if found is None else found.invoker


def name_of(node: NodeBooks | None) -> str | None:
    return None if node is None else node.invoker


def warm_slices(node: NodeBooks, function: str, *, ahead: bool) -> list[SliceBooks]:
    """Those that may be given to a task and have the model; with somebody on them, or nobody."""
    free = [p for p in node.slices if p.usable and not p.holder and bool(p.ahead) == ahead]
    return [p for p in free if function in p.residents and p.residents[function].ready]


def check(indexed: IndexedNodes, nodes: Sequence[NodeBooks]) -> None:
    """Compare every answer with a look at all of these nodes."""
    assert list(indexed) == [node.invoker for node in nodes]
    assert list(indexed.values()) == list(nodes)
    assert len(indexed) == len(nodes)
    assert indexed.vcpus == sum(node.vcpus for node in nodes)
    assert indexed.vcpus_free == sum(node.vcpus_free for node in nodes)
    assert indexed.vgpus_free == sum(node.vgpus_free for node in nodes)
    assert indexed.vgpus_usable == sum(part.usable for node in nodes for part in node.slices)
    assert indexed.has_room() == any(node.vgpus_free and node.vcpus_free for node in nodes)
    for vcpus, vgpus in ((1, 1), (3, 1), (2, 2)):
        able = [n for n in nodes if n.vcpus_free >= vcpus and n.vgpus_free >= vgpus]
        able.sort(key=lambda n: (-n.vgpus_free, -n.vcpus_free, n.invoker))
        assert list(indexed.roomiest_first(vcpus, vgpus)) == able
        for function in FUNCTIONS:
            idle = {n.invoker: len(warm_slices(n, function, ahead=False)) for n in able}
            warm = [n for n in able if idle[n.invoker] >= vgpus]
            found = first(warm, lambda n: (-n.vcpus_free, -idle[n.invoker]))  # noqa: B023
            assert name_of(indexed.roomiest_warm(function, vcpus, vgpus)) == found
            soon = {n.invoker: warm_slices(n, function, ahead=True) for n in able}
            warm = [n for n in able if soon[n.invoker]]
            warm = [n for n in warm if idle[n.invoker] + len(soon[n.invoker]) >= vgpus]
            found = first(
                warm,
                lambda n: (min(p.ahead_until_us for p in soon[n.invoker]), -n.vcpus_free),  # noqa: B023
            )
            assert name_of(indexed.soonest_warm(function, vcpus, vgpus)) == found
    for function, memory_mb in FUNCTIONS.items():
        loadable = [n for n in nodes if any(p.can_load(function, memory_mb) for p in n.slices)]
        found = first(loadable, lambda n: (n.instances.get(function, 0),))  # noqa: B023
        assert name_of(indexed.fewest_instances(function, memory_mb)) == found
        count = sum(function in part.residents for node in nodes for part in node.slices)
        assert indexed.count_instances(function, memory_mb) == count


@given(steps, st.sets(st.sampled_from(NAMES)), st.integers(1, 7))
def test_indexes_say_what_a_look_at_every_node_would(
    steps: list[Step], left_out: set[str], every: int
) -> None:
    nodes = make_nodes()
    indexed = IndexedNodes(NodeIndex(nodes, watch=True))
    some = indexed.without(sorted(left_out))
    for now_us, (what, name, index, function) in enumerate(steps):
        change(nodes[name], what, index, function, now_us)
        if now_us % every == 0:
            check(indexed, list(nodes.values()))
            check(some, [node for name, node in nodes.items() if name not in left_out])
    check(indexed, list(nodes.values()))
    assert all(ranking.is_true() for ranking in indexed.index.rankings())


@given(steps, st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_open_nodes_follow_those_that_come_go_and_drain(
    steps: list[Step], gone: str, draining: str
) -> None:
    state = State()
    for node in make_nodes().values():
        state.add_node(node)
        check(state.open_nodes(), list(state.nodes.values()))
    for now_us, (what, name, index, function) in enumerate(steps):
        change(state.nodes[name], what, index, function, now_us)
    check(state.open_nodes(), list(state.nodes.values()))
    state.health.draining.append(draining)
    state.remove_node(gone)
    left = [node for name, node in state.nodes.items() if name != draining]
    check(state.open_nodes(), left)
    state.add_node(NodeBooks.of(gone, 2, [1000]))
    state.health.draining.clear()
    check(state.open_nodes(), list(state.nodes.values()))


def test_an_index_for_one_question_leaves_the_watching_to_others() -> None:
    nodes = make_nodes()
    watching = IndexedNodes(NodeIndex(nodes, watch=True))
    assert IndexedNodes.of(watching) is watching
    once = IndexedNodes.of({"i0": nodes["i0"]})
    assert list(once.roomiest_first(1, 1)) == [nodes["i0"]]
    nodes["i0"].take("t1", "resize", 300, Config(1, 1, 1), 0)
    check(watching, list(nodes.values()))
