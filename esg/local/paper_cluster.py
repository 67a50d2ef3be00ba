"""The paper's cluster on one machine, or as much of it as the machine can carry.

The paper has 16 nodes of 16 vCPUs and 7 vGPUs, and a heavy, a normal and a light rate of requests:
75, 37 and 19 per second. Emulated, such a cluster computes nothing, but its requests cost CPU:
three quarters of a core at the heavy rate, and whoever sends them may need another quarter. So two
cores carry all of it, one carries half of it at the normal rate, and so on. Models are loaded when
it starts, and what goes from stage to stage has a hundredth of the paper's size: at the heavy rate
the full size is half a gigabyte per second.
"""

from collections.abc import Mapping
from typing import Any

from esg.local.machine import Machine

NODES = 16
NODES_PER_CORE = 8
MESH_MB, NODE_MB = 512, 64
"""Memory of the mesh without its nodes, and of a node under load: more than either was seen to
take."""

RATES = {16: "heavy", 8: "normal", 4: "light"}
"""What is as much for so many nodes as the heavy rate is for all."""

PAYLOAD_SCALE = 0.01
USUAL: Mapping[str, Mapping[str, Any]] = {
    "invoker": {"warm_start": True, "payload_scale": PAYLOAD_SCALE}
}
"""What emulated nodes are like, unless somebody chooses otherwise."""


def nodes_for(machine: Machine) -> int:
    """How many of the paper's nodes the machine can carry: all, or a half, a quarter ... of them.

    >>> [nodes_for(Machine(cores, 8_000)) for cores in (1, 2, 64)]
    [8, 16, 16]
    >>> [nodes_for(Machine(2, free_mb)) for free_mb in (1_600, 1_500, 700, 100)]
    [16, 8, 2, 1]
    """
    by_memory = (machine.free_mb - MESH_MB) // NODE_MB
    most = min(NODES, machine.cores * NODES_PER_CORE, by_memory)
    nodes = NODES
    while nodes > max(1, most):
        nodes //= 2
    return nodes


def nodes_per_process(nodes: int, machine: Machine) -> int:
    """How many nodes share a process. One process for every two cores leaves room for the others
    of a mesh, and more would cost memory and context switches for nothing.

    >>> [nodes_per_process(16, Machine(cores, 8_000)) for cores in (1, 2, 4, 8, 64)]
    [16, 16, 8, 4, 1]
    """
    processes = max(1, machine.cores // 2)
    return -(-nodes // processes)


def rate_for(nodes: int) -> str:
    """The paper's rate for that many nodes, or a share of what they can carry.

    >>> rate_for(16), rate_for(2)
    ('heavy', '80%')
    """
    return RATES.get(nodes, "80%")
