"""What the kinds of a node's slices mean to it: their memory, and what is not planned on them."""

import logging
from collections.abc import Mapping, Sequence
from itertools import chain

from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import USUAL, layout_text
from esg.core.catalog.unplanned import real_name, unplanned
from esg.errors import Rejected
from esg.invoker.slices.gpus import find_devices
from esg.runtime.logs import about
from esg.runtime.settings import InvokerSettings
from esg.runtime.slice_setting import Addresses, Auto, Cpu, Emulated, Gpu, Mig, parse_slices
from esg.runtime.unplanned_words import unplanned_words

log = logging.getLogger(__name__)


def memory_mb(kind: str, own: InvokerSettings, catalog: Catalog, found_mb: int = 0) -> int:
    """What the settings say, or what was found, or what the catalog says."""
    known = catalog.kinds.get(kind) or catalog.kinds[USUAL]
    return own.slice_memory_mb or found_mb or known.memory_mb


def kinds_of_servers(servers: Addresses, catalog: Catalog) -> tuple[str, ...]:
    """Triton servers that somebody else runs do not say what they run on: the setting does, where
    that makes a difference."""
    usual = catalog.kinds[USUAL].name
    found = []
    for index, address in enumerate(servers.addresses):
        said = servers.kind(index)
        if usual and not said:
            known = ", ".join(kind.name for kind in catalog.kinds.values())
            raise Rejected(
                f"invoker.slices: of which kind {address} is, only its settings can say; write "
                f"it before the address, as in {usual}@{address} (the catalog knows {known})"
            )
        found.append(catalog.kind_of([said]) if said else USUAL)
    return tuple(found)


def kinds_of(own: InvokerSettings, catalog: Catalog, number: int = 0) -> tuple[str, ...]:
    """The kinds of the slices that a node of this machine will have, before it is started."""
    match parse_slices(own.slices):
        case Emulated() as wanted:
            return wanted.kinds(catalog.kinds, number)
        case Cpu() as wanted:
            return cpu_kinds(wanted.threads(number), catalog)
        case Addresses() as servers:
            return kinds_of_servers(servers, catalog)
        case Mig() | Gpu() | Auto() as wanted:
            return tuple(catalog.kind_of(device.kinds) for device in find_devices(wanted))


def cpu_kinds(threads: Sequence[int], catalog: Catalog) -> tuple[str, ...]:
    """Of slices without a GPU."""
    return tuple(catalog.kind_of([f"cpu-{number}"]) for number in threads)


def say_kinds(nodes: Mapping[str, Sequence[str]], catalog: Catalog) -> None:
    """Have the log say which slices nodes have, and what is not planned on them."""
    layouts: dict[str, list[str]] = {}
    for node, kinds in nodes.items():
        layout = layout_text([real_name(catalog, kind) for kind in kinds])
        layouts.setdefault(layout, []).append(node)
    for layout, names in layouts.items():
        log.info("slices are ready", extra=about(nodes=names, slices=layout))
    for each in unplanned(catalog, chain.from_iterable(nodes.values())):
        level = logging.ERROR if each.nothing else logging.WARNING
        log.log(level, unplanned_words(each), extra=about(kind=each.kind))
