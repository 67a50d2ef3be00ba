"""How to make a fleet: the configuration of `nvidia-mig-parted`, and the cluster of a catalog.

Both are text, by the formats of github.com/NVIDIA/mig-parted (README, `mig-configs`) and of
`esg.core.catalog.cluster_table`.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from esg.core.catalog.slice_kinds import USUAL, SliceKind, counts, layout_text
from esg.emulator.sizing.cheapest_fleet import Fleet, Kinds

MIG_CONFIG = "esg"


def named(layout: Sequence[str], kinds: Mapping[str, SliceKind]) -> str:
    """A layout with the names of all its kinds.

    >>> usual = SliceKind(name="1g.10gb", memory_mb=1, usd_per_hour=1)
    >>> named(["3g.40gb", "", ""], {"": usual})
    '3g.40gb+2x1g.10gb'
    """
    return layout_text(_names(layout, kinds))


def _names(layout: Sequence[str], kinds: Mapping[str, SliceKind]) -> list[str]:
    return [kinds[kind].name if kind in kinds else kind for kind in layout]


def node_configs(fleet: Fleet) -> list[tuple[str, tuple[Kinds, ...], int]]:
    """The nodes that are alike: a name, the layouts of their GPUs in order, and how many there
    are."""
    groups = [(gpus, len(list(nodes))) for gpus, nodes in groupby(fleet.each_node())]
    names = [MIG_CONFIG] if len(groups) == 1 else [f"{MIG_CONFIG}-{n}" for n in range(len(groups))]
    return [(name, gpus, count) for name, (gpus, count) in zip(names, groups, strict=True)]


def mig_parted_yaml(fleet: Fleet, kinds: Mapping[str, SliceKind]) -> str:
    """A file for `nvidia-mig-parted apply -f FILE -c NAME`, with a configuration for every sort of
    node."""
    lines = ["# Written by esg size. On each node, as root:"]
    found = node_configs(fleet)
    for name, _, count in found:
        nodes = "1 node" if count == 1 else f"{count} nodes"
        lines.append(f"#   nvidia-mig-parted apply -f mig-parted.yaml -c {name}    # {nodes}")
    lines += ["version: v1", "mig-configs:"]
    for name, gpus, _ in found:
        lines.append(f"  {name}:")
        for layout in dict.fromkeys(gpus):
            own = [number for number, one in enumerate(gpus) if one == layout]
            devices = "all" if len(own) == len(gpus) else str(own).replace(" ", "")
            lines += [f"    - devices: {devices}", "      mig-enabled: true", "      mig-devices:"]
            for kind, count in counts(_names(layout, kinds)).items():
                lines.append(f'        "{kind}": {count}')
    return "\n".join(lines) + "\n"


def cluster_toml(fleet: Fleet, kinds: Mapping[str, SliceKind], extends: str | None) -> str:
    """The cluster as a catalog has it: a whole one if it extends a shipped one, else a section to
    put in the place of that of a catalog."""
    lines = ["# Written by esg size."]
    if extends is not None:
        lines += [f'extends = "{extends}"', ""]
    else:
        lines.append("# Put this in the place of [cluster] and all that it has in your catalog.")
    lines.append("[cluster]")
    if extends is None:
        usual = kinds[USUAL]
        lines += [f'kind = "{usual.name}"', f"slice_memory_mb = {usual.memory_mb}"]
    lines.append("classes = [")
    for one in fleet.cluster.classes:
        slices = named(one.slices, kinds)
        lines.append(f'    {{ count = {one.count}, vcpus = {one.vcpus}, slices = "{slices}" }},')
    return "\n".join([*lines, "]"]) + "\n"
