"""The cluster and its kinds of slices as tables of a catalog, read and checked.

Nodes that are all alike, with slices that need no name:

[cluster]
nodes = 16
vcpus = 16
vgpus = 7
slice_memory_mb = 10_000

With kinds, `kind` is what the usual slices are called, and nodes may be of several classes:

[cluster]
kind = "1g.10gb"                  # slice_memory_mb is what its name says, unless given
classes = [
    { count = 8, vcpus = 16, slices = "7x1g.10gb" },
    { count = 8, vcpus = 24, slices = "4g.40gb+3g.40gb" },
]

[kinds]                           # the others
"3g.40gb" = {}                    # a MIG instance: memory by its name, price by its GPCs
"4g.40gb" = {}
gpu-L4 = { memory_mb = 24_000, usd_per_hour = 0.8 }
"""

from collections.abc import Mapping

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.profile import Prices
from esg.core.catalog.slice_kinds import (
    USUAL,
    NodeClass,
    SliceKind,
    check_kind_name,
    mig_kind,
    parse_layout,
)
from esg.core.catalog.toml_fields import TomlFields
from esg.errors import Rejected
from esg.limits import MOST_MB, MOST_USD_PER_HOUR

SIZE_OF_NODES_ALIKE = ("nodes", "vcpus", "vgpus")
"""What a cluster says of nodes that are all alike, and one of several classes does not."""


def kinds_table(cluster: TomlFields, others: TomlFields, prices: Prices) -> dict[str, SliceKind]:
    """What the slices of a catalog can be: the usual kind, and the others."""
    name, usd_per_hour = cluster.text("kind", default="", empty=True), prices.vgpu_usd_per_hour
    usual = None
    if name:
        _check(cluster, "kind", name)
        usual = mig_kind(name, usd_per_hour)
    memory_mb = _memory_mb(cluster, "slice_memory_mb", usual)
    kinds = {USUAL: SliceKind(name=name, memory_mb=memory_mb, usd_per_hour=usd_per_hour)}
    for other in others.names_in():
        if not name:
            raise cluster.error("kind", "is missing: where slices differ, name the usual ones")
        if other == name:
            raise others.error(other, "is the usual kind: [cluster] and [prices] say what it is")
        kinds[other] = _kind(other, others, usd_per_hour, name)
    return kinds


def cluster_table(fields: TomlFields, kinds: Mapping[str, SliceKind]) -> Cluster:
    """The nodes, all alike or by their classes."""
    if fields.has("classes"):
        cluster = Cluster(classes=tuple(_class(each, kinds) for each in fields.rows("classes")))
    else:
        cluster = Cluster.alike(
            nodes=fields.integer("nodes", minimum=1),
            vcpus=fields.integer("vcpus", minimum=1),
            vgpus=fields.integer("vgpus", minimum=1),
        )
    fields.finish()
    return cluster


def _class(fields: TomlFields, kinds: Mapping[str, SliceKind]) -> NodeClass:
    said = fields.text("slices")
    try:
        slices = parse_layout(said, kinds)
    except Rejected as error:
        raise fields.error("slices", str(error)) from None
    count, vcpus = fields.integer("count", minimum=1), fields.integer("vcpus", minimum=1)
    fields.finish()
    return NodeClass(count=count, vcpus=vcpus, slices=slices)


def _kind(name: str, others: TomlFields, vgpu_usd_per_hour: float, usual: str) -> SliceKind:
    _check(others, name, name)
    fields, known = others.table(name), mig_kind(name, vgpu_usd_per_hour, usual)
    usd_per_hour = None if known is None else known.usd_per_hour
    kind = SliceKind(
        name=name,
        memory_mb=_memory_mb(fields, "memory_mb", known),
        usd_per_hour=(
            usd_per_hour
            if usd_per_hour is not None and not fields.has("usd_per_hour")
            else fields.number("usd_per_hour", minimum=0, maximum=MOST_USD_PER_HOUR)
        ),
    )
    fields.finish()
    return kind


def _memory_mb(fields: TomlFields, key: str, known: SliceKind | None) -> int:
    if known is not None and not fields.has(key):
        return known.memory_mb
    return fields.integer(key, minimum=1, maximum=int(MOST_MB))


def _check(fields: TomlFields, key: str, name: str) -> None:
    try:
        check_kind_name(name)
    except Rejected as error:
        raise fields.error(key, str(error)) from None
