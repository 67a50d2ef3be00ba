"""The shape of an application: its DAG, reduced along the dominator tree.

The paper (section "Dominator-based SLO Distribution") observes that serverless DAGs are nearly
always hierarchically reducible. Going through the dominator tree, children before parents, the
branches below a node are combined until a plain list is left. Here the result is kept as a value,
because two things are folds over it: the distribution of the SLO (`slo_split`) and the frontier of
whole-pipeline costs (`search.frontier`).

    Series    a tuple of blocks, one after the other
    block     a stage's name, or Parallel (branches), or Tangle

Take a split with a join, where `d` waits for both `b` and `c`:

>>> reduced({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")})
('a', Parallel(branches=(('b',), ('c',))), 'd')

A Tangle is the part that cannot be reduced: its stages are ordered by the DAG, but no list of
parallel branches says the same. Here `e` waits for `b` only while `f` waits for `b` and `c`:

>>> reduced({"a": (), "b": ("a",), "c": ("a",), "e": ("b",), "f": ("b", "c"), "z": ("e", "f")})
('a', Tangle(stages=('b', 'c', 'e', 'f')), 'z')
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter


@dataclass(frozen=True, slots=True)
class Parallel:
    """Branches that start together; what follows waits for all of them."""

    branches: tuple["Series", ...]


@dataclass(frozen=True, slots=True)
class Tangle:
    """Stages whose order is not series-parallel, in topological order."""

    stages: tuple[str, ...]


Block = str | Parallel | Tangle
Series = tuple[Block, ...]


def stages_of(series: Series) -> list[str]:
    """All stage names below a series.

    >>> stages_of(("a", Parallel((("b",), ("c",))), "d"))
    ['a', 'b', 'c', 'd']
    """
    names: list[str] = []
    for block in series:
        match block:
            case str():
                names.append(block)
            case Parallel():
                for branch in block.branches:
                    names += stages_of(branch)
            case Tangle():
                names += block.stages
    return names


def reduced(after: Mapping[str, Sequence[str]]) -> Series:
    """Reduce an acyclic graph with one root, given as stage -> the stages it waits for."""
    order = list(TopologicalSorter(after).static_order())
    reach = _reachable(after, order)
    # to wait for a stage that an awaited one waits for as well says nothing, and hides the shape
    needed = {
        stage: tuple(b for b in before if not any(o in reach[b] for o in before))
        for stage, before in after.items()
    }
    return _Reduction(needed, order, reach).series_below(order[0])


class _Reduction:
    def __init__(
        self,
        after: Mapping[str, Sequence[str]],
        order: list[str],
        reach: Mapping[str, frozenset[str]],
    ) -> None:
        self._after = after
        self._rank = {stage: rank for rank, stage in enumerate(order)}
        self._reach = reach
        self._children = _dominator_children(after, order)
        self._subtree: dict[str, list[str]] = {}
        for stage in reversed(order):
            self._subtree[stage] = [stage]
            for child in self._children[stage]:
                self._subtree[stage] += self._subtree[child]

    def series_below(self, stage: str) -> Series:
        """The stage and all it dominates, as one list (the paper's post-order reduction)."""
        return (stage, *self._arranged(self._children[stage]))

    def _arranged(self, heads: list[str]) -> Series:
        """The subtrees of some children of one dominator (in topological order), as one list."""
        if not heads:
            return ()
        if len(heads) == 1:
            return self.series_below(heads[0])
        sections = self._sections(heads)
        if len(sections) > 1:
            return tuple(block for section in sections for block in self._arranged(section))
        parts = self._parts(heads)
        if len(parts) > 1:
            return (Parallel(tuple(self._arranged(part) for part in parts)),)
        return (Tangle(self._in_order(n for head in heads for n in self._subtree[head])),)

    def _sections(self, heads: list[str]) -> list[list[str]]:
        """The heads, cut wherever all before the cut must be over when any after it begins."""
        sections: list[list[str]] = [[]]
        for place, head in enumerate(heads):
            before, after = heads[:place], heads[place:]
            if before and all(self._precedes(u, v) for u in before for v in after):
                sections.append([])
            sections[-1].append(head)
        return sections

    def _parts(self, heads: list[str]) -> list[list[str]]:
        """The heads, parted where nothing connects their subtrees."""
        import rustworkx as rx

        graph = rx.PyGraph()
        graph.add_nodes_from(heads)
        graph.add_edges_from_no_data(
            [(heads.index(u), heads.index(v)) for u in heads for v in heads if self._feeds(u, v)]
        )
        found = [sorted(part) for part in rx.connected_components(graph)]
        return [[heads[i] for i in part] for part in sorted(found)]

    def _feeds(self, u: str, v: str) -> bool:
        """An edge into a dominated subtree can only enter at its head."""
        return u != v and any(stage in self._after[v] for stage in self._subtree[u])

    def _precedes(self, u: str, v: str) -> bool:
        """All of one subtree is over before the other begins."""
        return all(v in self._reach[stage] for stage in self._subtree[u])

    def _in_order(self, stages: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(stages, key=self._rank.__getitem__))


def _dominator_children(
    after: Mapping[str, Sequence[str]], order: list[str]
) -> dict[str, list[str]]:
    """The dominator tree, from each stage to those it immediately dominates, in order."""
    import rustworkx as rx  # here, since most who import a catalog's types build no application

    number = {stage: i for i, stage in enumerate(order)}
    graph = rx.PyDiGraph()
    graph.add_nodes_from(order)
    graph.add_edges_from_no_data(
        [(number[before], number[stage]) for stage in order for before in after[stage]]
    )
    dominator = rx.immediate_dominators(graph, number[order[0]])
    children: dict[str, list[str]] = {stage: [] for stage in order}
    for stage in order[1:]:
        children[order[dominator[number[stage]]]].append(stage)
    return children


def _reachable(after: Mapping[str, Sequence[str]], order: list[str]) -> dict[str, frozenset[str]]:
    reach: dict[str, set[str]] = {stage: set() for stage in order}
    for stage in reversed(order):
        for before in after[stage]:
            reach[before] |= {stage} | reach[stage]
    return {stage: frozenset(found) for stage, found in reach.items()}
