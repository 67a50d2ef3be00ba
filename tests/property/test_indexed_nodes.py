"""Indexes over nodes say what a look at every node would, whatever happened to them."""

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from esg.core.catalog.config import Config
from esg.core.catalog.slice_kinds import USUAL
from esg.core.state.indexed_nodes import IndexedNodes, NodeIndex
from esg.core.state.node_books import NodeBooks, SliceBooks
from esg.core.state.state import State

FUNCTIONS = {"resize": 300, "detect": 500, "label": 700}
NAMES = ("i0", "i1", "i10", "i2")
SLICES = 3
KINDS = (USUAL, "3g.40gb")
FEW_KINDS: dict[str, tuple[str, ...]] = {"resize": KINDS[:1], "detect": KINDS, "label": KINDS[1:]}
"""What each function can run on."""

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


kinds_of_slices = st.lists(st.sampled_from(KINDS), min_size=SLICES, max_size=SLICES)
layouts = st.one_of(  # nodes that are all alike, and any
    kinds_of_slices.map(lambda kinds: [kinds] * len(NAMES)),
    st.lists(kinds_of_slices, min_size=len(NAMES), max_size=len(NAMES)),
)


def make_nodes(layouts: Sequence[Sequence[str]]) -> dict[str, NodeBooks]:
    return {
        name: NodeBooks.of(name, 4 + len(name), [1000] * SLICES, kinds)
        for name, kinds in zip(NAMES, layouts, strict=True)
    }


def change(node: NodeBooks, what: str, index: int, function: str, now_us: int) -> None:
    """Do one thing to a node, if it can be done."""
    part, memory_mb = node.slices[index], FUNCTIONS[function]
    config = Config(1, 1 + index, 1, part.kind)
    match what:
        case "take":
            if node.fits(config) and node.pick(function, memory_mb, 1, config.kind) is not None:
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


def free_slices(node: NodeBooks, kind: str) -> list[SliceBooks]:
    """Those of a kind that may be given to a task."""
    return [p for p in node.slices if p.usable and not p.holder and p.kind == kind]


def warm_slices(node: NodeBooks, function: str, kind: str, *, ahead: bool) -> list[SliceBooks]:
    """Those of them that have the model; with somebody on them, or nobody."""
    free = [p for p in free_slices(node, kind) if bool(p.ahead) == ahead]
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
    for kind in KINDS:
        for vcpus, vgpus in ((1, 1), (3, 1), (2, 2)):
            check_room(indexed, nodes, vcpus, vgpus, kind)
    for function, memory_mb in FUNCTIONS.items():
        kinds = FEW_KINDS[function]
        loadable = [
            n
            for n in nodes
            if any(p.can_load(function, memory_mb) and p.kind in kinds for p in n.slices)
        ]
        count = {
            n.invoker: sum(function in p.residents and p.kind in kinds for p in n.slices)
            for n in nodes
        }
        found = first(loadable, lambda n: (count[n.invoker],))  # noqa: B023
        assert name_of(indexed.fewest_instances(function, memory_mb, kinds)) == found
        assert indexed.count_instances(function, memory_mb, kinds) == sum(count.values())


def check_room(
    indexed: IndexedNodes, nodes: Sequence[NodeBooks], vcpus: int, vgpus: int, kind: str
) -> None:
    """Compare where there is so much room, and with which models."""
    free = {node.invoker: len(free_slices(node, kind)) for node in nodes}
    able = [n for n in nodes if n.vcpus_free >= vcpus and free[n.invoker] >= vgpus]
    able.sort(key=lambda n: (-free[n.invoker], -n.vcpus_free, n.invoker))
    assert list(indexed.roomiest_first(vcpus, vgpus, kind)) == able
    for function in FUNCTIONS:
        idle = {n.invoker: len(warm_slices(n, function, kind, ahead=False)) for n in able}
        warm = [n for n in able if idle[n.invoker] >= vgpus]
        found = first(warm, lambda n: (-n.vcpus_free, -idle[n.invoker]))  # noqa: B023
        assert name_of(indexed.roomiest_warm(function, vcpus, vgpus, kind)) == found
        soon = {n.invoker: warm_slices(n, function, kind, ahead=True) for n in able}
        warm = [n for n in able if soon[n.invoker]]
        warm = [n for n in warm if idle[n.invoker] + len(soon[n.invoker]) >= vgpus]
        found = first(
            warm,
            lambda n: (min(p.ahead_until_us for p in soon[n.invoker]), -n.vcpus_free),  # noqa: B023
        )
        assert name_of(indexed.soonest_warm(function, vcpus, vgpus, kind)) == found


@given(layouts, steps, st.sets(st.sampled_from(NAMES)), st.integers(1, 7))
def test_indexes_say_what_a_look_at_every_node_would(
    layouts: list[list[str]], steps: list[Step], left_out: set[str], every: int
) -> None:
    nodes = make_nodes(layouts)
    indexed = IndexedNodes(NodeIndex(nodes, watch=True))
    some = indexed.without(sorted(left_out))
    for now_us, (what, name, index, function) in enumerate(steps):
        change(nodes[name], what, index, function, now_us)
        if now_us % every == 0:
            check(indexed, list(nodes.values()))
            check(some, [node for name, node in nodes.items() if name not in left_out])
    check(indexed, list(nodes.values()))
    assert all(ranking.is_true() for ranking in indexed.index.rankings())


@given(layouts, steps, st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(KINDS))
def test_open_nodes_follow_those_that_come_go_and_drain(
    layouts: list[list[str]], steps: list[Step], gone: str, draining: str, back_as: str
) -> None:
    state = State()
    for node in make_nodes(layouts).values():
        state.add_node(node)
        check(state.open_nodes(), list(state.nodes.values()))
    for now_us, (what, name, index, function) in enumerate(steps):
        change(state.nodes[name], what, index, function, now_us)
    check(state.open_nodes(), list(state.nodes.values()))
    state.health.draining.append(draining)
    state.remove_node(gone)
    left = [node for name, node in state.nodes.items() if name != draining]
    check(state.open_nodes(), left)
    state.add_node(NodeBooks.of(gone, 2, [1000], [back_as]))
    state.health.draining.clear()
    check(state.open_nodes(), list(state.nodes.values()))


def test_an_index_for_one_question_leaves_the_watching_to_others() -> None:
    nodes = make_nodes([KINDS[:1] * SLICES] * len(NAMES))
    watching = IndexedNodes(NodeIndex(nodes, watch=True))
    assert IndexedNodes.of(watching) is watching
    once = IndexedNodes.of({"i0": nodes["i0"]})
    assert list(once.roomiest_first(1, 1, USUAL)) == [nodes["i0"]]
    nodes["i0"].take("t1", "resize", 300, Config(1, 1, 1), 0)
    check(watching, list(nodes.values()))
