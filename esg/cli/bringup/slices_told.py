"""Which slices the nodes of a mesh on this machine have, and what is not planned on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from esg.console.formatting import counted
from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import layout_text
from esg.core.catalog.unplanned import Unplanned, real_name, unplanned
from esg.errors import Rejected
from esg.invoker.slices.kinds import kinds_of
from esg.runtime.catalog import load
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.unplanned_words import unplanned_words


@dataclass(frozen=True, slots=True)
class ToldSlices:
    """How many nodes have which layout, and what is planned on none of a kind."""

    layouts: dict[str, int]
    unplanned: list[Unplanned]
    kinds: frozenset[str] = frozenset()
    """As configs have them."""

    @staticmethod
    def of(own: InvokerSettings, catalog: Catalog, nodes: int) -> "ToldSlices":
        each = [kinds_of(own, catalog, number) for number in range(nodes)]
        layouts: dict[str, int] = {}
        for kinds in each:
            layout = layout_text([real_name(catalog, kind) for kind in kinds])
            layouts[layout] = layouts.get(layout, 0) + 1
        found = list(chain.from_iterable(each))
        return ToldSlices(layouts, unplanned(catalog, found), frozenset(found))

    @staticmethod
    def of_mesh(settings: Mapping[str, Mapping[str, Any]], nodes: int) -> "ToldSlices":
        """Of one that runs, by its settings; what cannot be found out any more is left out."""
        try:
            common = CommonSettings(**settings.get("common", {}))
            own = InvokerSettings(**settings.get("invoker", {}))
            return ToldSlices.of(own, load(common), nodes)
        except (Rejected, OSError):
            return ToldSlices({}, [])

    @property
    def notes(self) -> list[str]:
        return [unplanned_words(each) for each in self.unplanned]

    @property
    def text(self) -> str:
        """
        >>> ToldSlices({"7x1g.10gb": 1, "4g.40gb+3g.40gb": 2}, []).text
        'slices: 7x1g.10gb on 1 node, 4g.40gb+3g.40gb on 2 nodes'
        """
        told = [f"{layout} on {counted(n, 'node')}" for layout, n in self.layouts.items()]
        return f"slices: {', '.join(told)}"
