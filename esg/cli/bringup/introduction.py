"""What `esg up` is about to start, and why that and not something else."""

from esg.cli.bringup.foreground import slices_text
from esg.console.formatting import counted
from esg.core.catalog.shipped import CPU, SHIPPED
from esg.local.machine import Machine
from esg.local.options import Chosen
from esg.local.paper_cluster import NODES, rate_for
from esg.local.programs import shared_out
from esg.names import node_names
from esg.runtime.settings import InvokerSettings
from esg.runtime.slice_setting import Cpu, Emulated, parse_slices

GB = 1024


def introduction(chosen: Chosen, machine: Machine, *, sized: bool) -> str:
    """A few words on a mesh with emulated slices, or with a catalog that it was not told of, and
    none on another; `sized` if its number of nodes is ours, not the user's."""
    own = chosen.settings.of(InvokerSettings)
    slices = parse_slices(own.slices)
    if isinstance(slices, Cpu) and chosen.common.catalog == str(SHIPPED[CPU]):
        return (
            f"starting {slices_text(own.slices)} without a GPU, with the catalog {CPU}: its times "
            f"were measured on another machine; for yours: esg profile --slices {slices}"
        )
    if not isinstance(slices, Emulated):
        return ""
    each = f"{counted(chosen.nodes, 'node')} x {own.vcpus} vCPUs x {slices_text(own.slices)}"
    processes = len(shared_out(node_names(chosen.nodes), chosen.nodes_per_process))
    parts = [
        f"{each} in {processes} process{'es' * (processes > 1)}",
        "models loaded" if own.warm_start else "no models loaded",
        f"data between stages at {own.payload_scale * 100:g} % of the catalog's sizes",
    ]
    text = f"starting {', '.join(parts)}"
    if not sized:
        return text
    if chosen.nodes == NODES:
        return f"{text}: the paper's cluster, for loadgen --rate {rate_for(NODES)}"
    return (
        f"{text}: this machine, with {counted(machine.cores, 'core')} and "
        f"{machine.free_mb / GB:.1f} GB of free memory, is too small for the paper's {NODES} "
        f"nodes; this is for loadgen --rate {rate_for(chosen.nodes)} (--nodes {NODES} insists)"
    )
