"""Which slices `esg plan` plans for: those of the catalog's cluster, or of another layout."""

from dataclasses import dataclass, replace

from esg.core.catalog.config import CONFIG_LEGEND
from esg.core.catalog.model import Catalog
from esg.core.catalog.on_kinds import OnKinds, on_its_cluster, runs_nowhere
from esg.core.catalog.slice_kinds import USUAL, layout_text, parse_layouts
from esg.core.catalog.unplanned import unplanned
from esg.errors import Rejected
from esg.runtime.unplanned_words import unplanned_words


@dataclass(frozen=True, slots=True)
class OnSlices:
    """A catalog with what can be planned on its cluster. `missing` says of functions why there is
    no slice for them, and `notes` what else there is to know of the slices."""

    catalog: Catalog
    missing: dict[str, str]
    notes: list[str]

    def check(self, application: str) -> None:
        """Refuse an application that could never be done there."""
        reasons = self.why_not(application)
        if reasons:
            raise Rejected(f"{application}: {reasons[0]}")

    def why_not(self, application: str) -> list[str]:
        functions = self.catalog.application(application).functions()
        return [self.missing[f.name] for f in functions if f.name in self.missing]


def on_slices(known: Catalog, layout: str | None) -> OnSlices:
    """What is planned for: nodes as in the catalog, with these slices if any are named."""
    if layout is not None:
        try:
            layouts = parse_layouts(layout, known.kinds)
        except Rejected as error:
            raise Rejected(f"--layout: {error}") from None
        known = replace(known, cluster=known.cluster.resized(layouts=layouts))
    kinds = known.cluster.kinds()
    missing = {
        name: runs_nowhere(known, function, kinds)
        for name, function in known.functions.items()
        if not OnKinds(kinds).able(function, known)
    }
    catalog = on_its_cluster(known)
    notes = [f"{unplanned_words(each)}." for each in unplanned(known, kinds)]
    return OnSlices(catalog, missing, notes)


def config_legend(known: Catalog) -> str:
    """What a config says where slices are of several kinds.

    >>> from esg.core.catalog.file import load_catalog
    >>> config_legend(load_catalog())
    'A config is batch/vCPUs/vGPUs'
    """
    kinds = known.cluster.kinds()
    if not any(kinds):
        return f"A config is {CONFIG_LEGEND}"
    layouts = ", ".join(layout_text(one.slices, known.kinds) for one in known.cluster.classes)
    return (
        f"Nodes have the slices {layouts}. A config is {CONFIG_LEGEND}, and the kind of the vGPUs "
        f"if it is not {known.kinds[USUAL].name}"
    )
