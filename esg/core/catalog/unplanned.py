"""Which functions are planned on none of a kind of slices, and why: what people have to be told."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esg.core.catalog.slice_kinds import USUAL

if TYPE_CHECKING:  # who shows what a mesh says of it needs no numpy
    from esg.core.catalog.model import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplanned:
    """Functions that run on no slice of a kind, which goes by its real name (empty: usual slices of
    no name): those whose profiles do not know the kind, and those that are larger than it."""

    kind: str
    unprofiled: tuple[str, ...] = ()
    too_large: tuple[str, ...] = ()
    nothing: bool = False
    """Whether these are all functions that there are."""

    def __bool__(self) -> bool:
        return bool(self.unprofiled or self.too_large)


def unplanned(catalog: "Catalog", kinds: Iterable[str]) -> list[Unplanned]:
    """Of each of these kinds, in order, if anything is planned on none of its slices."""
    found = [planned_on(catalog, kind) for kind in dict.fromkeys(kinds)]
    return [each for each in found if each]


def planned_on(catalog: "Catalog", kind: str) -> Unplanned:
    """What is not planned on slices of a kind, if there is anything."""
    known, functions = catalog.kinds.get(kind), catalog.functions
    unprofiled = tuple(name for name, f in functions.items() if kind not in f.profile.kinds)
    too_large = tuple(
        name
        for name, function in functions.items()
        if name not in unprofiled and known is not None and function.memory_mb > known.memory_mb
    )
    return Unplanned(
        kind=real_name(catalog, kind),
        unprofiled=unprofiled,
        too_large=too_large,
        nothing=len(unprofiled) + len(too_large) == len(functions),
    )


def real_name(catalog: "Catalog", kind: str) -> str:
    """What a kind is called where it is not a config's; empty for usual slices of no name."""
    return catalog.kinds[kind].name if kind == USUAL else kind
