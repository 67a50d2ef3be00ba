"""The emulated slices of a node, as its settings say."""

from collections.abc import Sequence

from esg.core.catalog.model import Catalog
from esg.core.durations import Durations, DurationSettings
from esg.invoker.emulated.repository import Repository
from esg.invoker.emulated.service import EmulatedSlice
from esg.invoker.slices.kinds import memory_mb
from esg.runtime.settings import CommonSettings, InvokerSettings


def emulated_slices(
    node: str,
    kinds: Sequence[str],
    own: InvokerSettings,
    common: CommonSettings,
    catalog: Catalog,
) -> list[EmulatedSlice]:
    """One of each of these kinds; what they take depends on the node's name, too."""
    durations = emulated_durations(own, common, catalog)
    had: set[str] = set()
    return [
        _slice(node, index, kind, own, catalog, durations, had) for index, kind in enumerate(kinds)
    ]


def emulated_durations(own: InvokerSettings, common: CommonSettings, catalog: Catalog) -> Durations:
    """What everything takes there. A task of which parts are emulated elsewhere takes the same."""
    unload_us = round(DurationSettings().unload_us * common.time_scale)
    return Durations(catalog, own.seed, DurationSettings(noise=own.noise, unload_us=unload_us))


def _slice(
    node: str,
    index: int,
    kind: str,
    own: InvokerSettings,
    catalog: Catalog,
    durations: Durations,
    had: set[str],
) -> EmulatedSlice:
    def load_us(function: str) -> int:
        again = function in had
        had.add(function)
        return durations.load_us(node, index, function, again=again)

    repository = Repository(
        catalog.functions,
        memory_mb=memory_mb(kind, own, catalog),
        load_us=load_us,
        unload_us=durations.settings.unload_us,
    )
    if own.warm_start:
        repository.warm()
        had.update(catalog.functions)
    return EmulatedSlice(f"{node}/{index}", repository, durations, own.payload_scale, kind)
