"""Indexed nodes: the nodes that may be given work, with indexes over them.

Which node has most left over, which has a model and a free slice for it, how many vCPUs are free in
all: such questions are asked several times per decision, so that their answers must not take longer
where there are more nodes. Each of them has an index (`Ranking`): nodes in buckets by what they
have, the buckets in order. A node that changes is noted (`NodeBooks.watched_by`), and looked at
again when an index is asked next; so a question takes as long as the few nodes take that have
changed since it was asked last.

Indexes are no memory: they are made of the books of the nodes when they are needed, and say the
same whenever that was.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, ItemsView, Iterator, KeysView, Mapping, ValuesView
from operator import attrgetter

from esg.core.state.node_books import Changed, NodeBooks
from esg.units import NEVER_US

Key = tuple[int, int]
"""What nodes are ranked by: the least comes first."""

MOST_ORDERS = 1024
"""How many orders of nodes are kept (`IndexedNodes.ordered`)."""


class Ranking:
    """Nodes in the order of a key, those with the same key by name."""

    __slots__ = ("_key", "_known", "_nodes", "keys", "names", "stale", "totals")

    def __init__(self, nodes: Mapping[str, NodeBooks], key: Callable[[NodeBooks], Key]) -> None:
        self._nodes = nodes
        self._key = key
        self._known: dict[str, Key] = {}
        self.keys: list[Key] = []
        """Those that some nodes have, in order."""
        self.names: dict[Key, list[str]] = {}
        """By key, in order."""
        self.totals: Key = (0, 0)
        """The keys of all nodes, added up."""
        self.stale: dict[str, None] = dict.fromkeys(nodes)
        """The nodes that have to be looked at."""

    def fresh(self) -> "Ranking":
        """This ranking, with all that has changed."""
        if self.stale:
            nodes, known, key = self._nodes, self._known, self._key
            for name in self.stale:
                old, new = known.get(name), key(nodes[name])
                if new != old:
                    self._move(name, old, new)
            self.stale.clear()
        return self

    def is_true(self) -> bool:
        """Whether this is the order of the nodes as they are: no change has gone unnoticed."""
        self.fresh()
        true = sorted((self._key(node), name) for name, node in self._nodes.items())
        first, second = (sum(key[part] for key, _ in true) for part in (0, 1))
        held = [(key, name) for key in self.keys for name in self.names[key]]
        return held == true and self.totals == (first, second)

    def _move(self, name: str, old: Key | None, new: Key) -> None:
        first, second = self.totals
        if old is not None:
            self._leave(name, old)
            first, second = first - old[0], second - old[1]
        self._known[name] = new
        self.totals = first + new[0], second + new[1]
        found = self.names.get(new)
        if found is None:
            insort(self.keys, new)
            self.names[new] = [name]
        else:
            insort(found, name)

    def _leave(self, name: str, key: Key) -> None:
        names = self.names[key]
        if len(names) > 1:
            del names[bisect_left(names, name)]
        else:
            del self.names[key]
            del self.keys[bisect_left(self.keys, key)]


class NodeIndex:
    """The indexes over some nodes, as long as they are the same nodes. Those that do not `watch`
    are for one question: they do not hear of changes, and a node is watched by one index only."""

    def __init__(self, nodes: Mapping[str, NodeBooks], *, watch: bool) -> None:
        self.nodes = nodes
        self.vcpus = sum([node.vcpus for node in nodes.values()])
        self.orders: dict[str, list[str]] = {}
        self._on_room: Changed = []
        self._on_models: Changed = []
        for node in nodes.values() if watch else ():
            node.watched_by(self._on_room, self._on_models)
        self._free = self._ranking(_least_in_use, self._on_room)
        self._free_of: dict[str, Ranking] = {}
        self._usable: Ranking | None = None
        self._warm: dict[tuple[str, str], Ranking] = {}
        self._next_warm: dict[tuple[str, str], Ranking] = {}
        self._loadable: dict[_Loadable, Ranking] = {}
        kinds = {kind for node in nodes.values() for kind in node.kinds()}
        self._only_kind = kinds.pop() if len(kinds) == 1 else None

    def free(self) -> Ranking:
        """By free vGPUs, then vCPUs; the most first."""
        return self._free.fresh()

    def free_of(self, kind: str) -> Ranking:
        """By free vGPUs of a kind, then vCPUs; the most first."""
        if kind == self._only_kind:
            return self._free.fresh()
        found = self._free_of.get(kind)
        if found is None:

            def key(node: NodeBooks) -> Key:
                return -node.free_of.get(kind, 0), -node.vcpus_free

            found = self._free_of[kind] = self._ranking(key, self._on_room)
        return found.fresh()

    def usable(self) -> Ranking:
        """By slices that are in order."""
        if self._usable is None:
            self._usable = self._ranking(_usable, self._on_models)
        return self._usable.fresh()

    def warm(self, function: str, kind: str) -> Ranking:
        """By free vCPUs, then free slices of a kind with the model that nobody is on; the most
        first."""
        found = self._warm.get((function, kind))
        if found is None:

            def key(node: NodeBooks) -> Key:
                return -node.vcpus_free, -node.count_warm_idle(function, kind)

            found = self._warm[function, kind] = self._ranking(key, self._on_room)
        return found.fresh()

    def next_warm(self, function: str, kind: str) -> Ranking:
        """By when a free slice of a kind with the model will be left that somebody is on, the
        soonest first; then by free vCPUs, the most first."""
        found = self._next_warm.get((function, kind))
        if found is None:

            def key(node: NodeBooks) -> Key:
                return node.next_warm_us(function, kind), -node.vcpus_free

            found = self._next_warm[function, kind] = self._ranking(key, self._on_room)
        return found.fresh()

    def loadable(self, function: str, memory_mb: int, kinds: tuple[str, ...]) -> Ranking:
        """Those first that could load one more instance in free memory, on a slice of these kinds;
        the fewest instances first."""
        found = self._loadable.get((function, memory_mb, kinds))
        if found is None:

            def key(node: NodeBooks) -> Key:
                full = not node.has_memory_for(function, memory_mb, kinds)
                return full, node.count_instances(function, kinds)

            found = self._ranking(key, self._on_models)
            self._loadable[function, memory_mb, kinds] = found
        return found.fresh()

    def rankings(self) -> list[Ranking]:
        """All that have been asked for."""
        usable = [] if self._usable is None else [self._usable]
        warm = [*self._warm.values(), *self._next_warm.values()]
        free = [self._free, *self._free_of.values()]
        return [*free, *usable, *warm, *self._loadable.values()]

    def _ranking(self, key: Callable[[NodeBooks], Key], changed: Changed) -> Ranking:
        made = Ranking(self.nodes, key)
        changed.append(made.stale)
        return made


_Loadable = tuple[str, int, tuple[str, ...]]


def _least_in_use(node: NodeBooks) -> Key:
    return -node.vgpus_free, -node.vcpus_free


def _usable(node: NodeBooks) -> Key:
    return sum([part.usable for part in node.slices]), 0


_VCPUS: Callable[[NodeBooks], int] = attrgetter("vcpus")
_VCPUS_FREE: Callable[[NodeBooks], int] = attrgetter("vcpus_free")
_VGPUS_FREE: Callable[[NodeBooks], int] = attrgetter("vgpus_free")


class IndexedNodes(Mapping[str, NodeBooks]):
    """The nodes of an index by name, apart from a few."""

    __slots__ = ("_left_out", "index")

    def __init__(self, index: NodeIndex, left_out: Collection[str] = ()) -> None:
        self.index = index
        self._left_out = [name for name in left_out if name in index.nodes] if left_out else ()

    @staticmethod
    def of(nodes: Mapping[str, NodeBooks]) -> "IndexedNodes":
        """Any nodes, with indexes."""
        if isinstance(nodes, IndexedNodes):
            return nodes
        return IndexedNodes(NodeIndex(nodes, watch=False))

    def without(self, names: Collection[str]) -> "IndexedNodes":
        """The others, if these are left out."""
        return IndexedNodes(self.index, dict.fromkeys([*self._left_out, *names]))

    def __getitem__(self, name: str) -> NodeBooks:
        if self._left_out and name in self._left_out:
            raise KeyError(name)
        return self.index.nodes[name]

    def get(self, name: str, default: NodeBooks | None = None) -> NodeBooks | None:  # type: ignore[override]
        if self._left_out and name in self._left_out:
            return default
        return self.index.nodes.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self.index.nodes and name not in self._left_out

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes())

    def __len__(self) -> int:
        return len(self.index.nodes) - len(self._left_out)

    def keys(self) -> KeysView[str]:
        return self._nodes().keys()

    def values(self) -> ValuesView[NodeBooks]:
        return self._nodes().values()

    def items(self) -> ItemsView[str, NodeBooks]:
        return self._nodes().items()

    def _nodes(self) -> Mapping[str, NodeBooks]:
        nodes, left_out = self.index.nodes, self._left_out
        if not left_out:
            return nodes
        return {name: node for name, node in nodes.items() if name not in left_out}

    @property
    def vcpus(self) -> int:
        return self.index.vcpus - self._in_others(_VCPUS)

    @property
    def vcpus_free(self) -> int:
        return -self.index.free().totals[1] - self._in_others(_VCPUS_FREE)

    @property
    def vgpus_free(self) -> int:
        return -self.index.free().totals[0] - self._in_others(_VGPUS_FREE)

    @property
    def vgpus_usable(self) -> int:
        """How many slices are in order, free or not."""
        return self.index.usable().totals[0] - self._in_others(lambda node: _usable(node)[0])

    def count_instances(self, function: str, memory_mb: int, kinds: tuple[str, ...]) -> int:
        """How many slices of these kinds have, or are loading, the model."""
        others = self._in_others(lambda node: node.count_instances(function, kinds))
        return self.index.loadable(function, memory_mb, kinds).totals[1] - others

    def has_room(self) -> bool:
        """Whether any node has both a free vGPU and a free vCPU."""
        free = self.index.free()
        for key in free.keys:
            vgpus, vcpus = key
            if not vgpus:
                return False
            if vcpus and self._first(free.names[key]) is not None:
                return True
        return False

    def roomiest_first(self, vcpus: int, vgpus: int, kind: str) -> Iterator[NodeBooks]:
        """The nodes with so much room: the one with the most free vGPUs of the kind first, then
        vCPUs. To be used before any of them changes."""
        free, nodes = self.index.free_of(kind), self.index.nodes
        for key in free.keys:
            if -key[0] < vgpus:
                return
            if -key[1] >= vcpus:
                for name in free.names[key]:
                    if name not in self._left_out:
                        yield nodes[name]

    def roomiest_warm(self, function: str, vcpus: int, vgpus: int, kind: str) -> NodeBooks | None:
        """The node with the most free vCPUs, then the most free slices of a kind with the model,
        that has so many of both, and nobody on them."""
        warm = self.index.warm(function, kind)
        for key in warm.keys:
            if -key[0] < vcpus:
                return None
            if -key[1] >= vgpus:
                found = self._first(warm.names[key])
                if found is not None:
                    return self.index.nodes[found]
        return None

    def soonest_warm(self, function: str, vcpus: int, vgpus: int, kind: str) -> NodeBooks | None:
        """The node with so much room where a free slice of a kind with the model will be left first
        that somebody is on."""
        following = self.index.next_warm(function, kind)
        for key in following.keys:
            if key[0] == NEVER_US:
                return None
            if -key[1] >= vcpus:
                for name in following.names[key]:
                    node = self.index.nodes[name]
                    if name not in self._left_out and node.count_warm_free(function, kind) >= vgpus:
                        return node
        return None

    def fewest_instances(
        self, function: str, memory_mb: int, kinds: tuple[str, ...]
    ) -> NodeBooks | None:
        """The node with the fewest instances that could load one more in free memory."""
        loadable = self.index.loadable(function, memory_mb, kinds)
        for key in loadable.keys:
            if key[0]:
                return None
            found = self._first(loadable.names[key])
            if found is not None:
                return self.index.nodes[found]
        return None

    def ordered(self, name: str, order: Callable[[Collection[str]], list[str]]) -> Iterator[str]:
        """The nodes in an order that has a name, and depends on nothing but who is there."""
        orders = self.index.orders
        found = orders.get(name)
        if found is None:
            if len(orders) == MOST_ORDERS:
                orders.clear()
            found = orders[name] = order(self.index.nodes.keys())
        return iter(found) if not self._left_out else (n for n in found if n not in self._left_out)

    def _first(self, names: list[str]) -> str | None:
        if not self._left_out:
            return names[0]
        return next((name for name in names if name not in self._left_out), None)

    def _in_others(self, count: Callable[[NodeBooks], int]) -> int:
        """How much of something those have that are left out."""
        if not self._left_out:  # most often
            return 0
        return sum([count(self.index.nodes[name]) for name in self._left_out])
