"""What a mesh on one machine consists of: each process' command line, environment and readiness.

Controller and nodes listen wherever there is room, unless they are told otherwise; the gateway has
a port that people know.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from esg.local.health import is_serving, redis_answers, redis_line, service_line
from esg.local.options import Chosen
from esg.local.process import Program
from esg.local.redis_server import server_command
from esg.local.run_directory import RunDirectory
from esg.local.secure import CLIENT, SecureFolder, probing
from esg.names import node_names
from esg.runtime.rpc.addresses import READY_FILE, socket_address
from esg.runtime.security.tls import Security
from esg.runtime.settings import GatewaySettings, InvokerSettings
from esg.runtime.settings_file import environment
from esg.runtime.slice_setting import Cpu, Emulated, parse_slices

REDIS, CONTROLLER, GATEWAY, INVOKER = "redis", "controller", "gateway", "invoker"

GRPC_TUNING = {
    # gRPC's own pool of threads costs three context switches per message where its older way of
    # polling costs two: a fifth to a quarter of the CPU of a mesh (benchmarks/overhead.py)
    "GRPC_EXPERIMENTS": (
        "-event_engine_client,-event_engine_listener,-event_engine_for_all_other_endpoints"
    ),
    "GRPC_VERBOSITY": "ERROR",  # peers that come and go are in our own logs
}
"""Read by gRPC when it is imported, so it has to be in the environment. What is there already
wins."""

MALLOC_TUNING = {"MALLOC_MMAP_THRESHOLD_": "4194304", "MALLOC_TRIM_THRESHOLD_": "8388608"}
"""So that payloads come from the heap, whose pages are there already: with glibc's defaults, which
move with what was freed, a request of 1 MB costs up to a thousand page faults in the gateway alone.
What a flood leaves on the heap goes back by `esg.runtime.memory`."""

REDIS_MALLOC_TUNING = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""So that memory goes back to the system after a flood: a Redis that had held 130 MB kept them for
good. Payloads are mapped by themselves here, and unmapped when they are deleted."""


def service_of(process: str) -> str:
    """What a process of a mesh runs, by its name.

    >>> [service_of(name) for name in ("redis", "controller", "gateway", "gateway1", "node0")]
    ['redis', 'controller', 'gateway', 'gateway', 'invoker']
    >>> service_of("node00-15")
    'invoker'
    """
    kind = process.rstrip("0123456789")
    return kind if kind in (REDIS, CONTROLLER, GATEWAY) else INVOKER


def shared_out(nodes: Sequence[str], per_process: int) -> dict[str, list[str]]:
    """Which nodes are in which process; one that has several is named by the first and the last.

    >>> shared_out(["node0", "node1", "node2"], 2)
    {'node0-1': ['node0', 'node1'], 'node2': ['node2']}
    """
    shares = [list(nodes[n : n + per_process]) for n in range(0, len(nodes), per_process)]
    return {_process_name(share): share for share in shares}


def has_node(process: str, node: str) -> bool:
    """Whether a process that has several nodes has this one, by their names.

    >>> [has_node("node08-15", node) for node in ("node08", "node12", "node16", "gateway")]
    [True, True, False, False]
    >>> has_node("node8", "node8")
    False
    """
    first, between, last = process.partition("-")
    kind = first.rstrip("0123456789")
    number = node.removeprefix(kind)
    numbers = (first.removeprefix(kind), number, last)
    if not between or number == node or not all(part.isdecimal() for part in numbers):
        return False
    return int(numbers[0]) <= int(number) <= int(last)


def _process_name(nodes: Sequence[str]) -> str:
    first, last = nodes[0], nodes[-1]
    kind = first.rstrip("0123456789")
    return first if first == last else f"{first}-{last.removeprefix(kind)}"


class Programs:
    def __init__(self, chosen: Chosen, directory: RunDirectory) -> None:
        chosen.set_default(CONTROLLER, "port", 0)
        chosen.set_default(CONTROLLER, "journal", directory.journal)
        if directory.shared is not None:
            chosen.set_default("common", "shared_data", directory.shared)
        self._chosen = chosen
        self._directory = directory
        self.secure = SecureFolder(directory.security) if chosen.secure else None
        if self.secure is not None:
            for name, value in self.secure.identity(CLIENT).items():
                chosen.set_default("common", name, value)
            for name, value in self.secure.door().items():
                chosen.set_default(GATEWAY, name, value)
        self.redis_url = chosen.common.redis_url

    @property
    def has_own_redis(self) -> bool:
        """Unless somebody named a server that is already there."""
        return not self._chosen.settings.says("common", "redis_url")

    @property
    def nodes(self) -> list[str]:
        """Names as in emulated runs."""
        return node_names(self._chosen.nodes)

    @property
    def node_processes(self) -> dict[str, list[str]]:
        """The nodes that each of their processes has, by its name."""
        return shared_out(self.nodes, self._chosen.nodes_per_process)

    def redis(self) -> Program:
        # Not below the mesh's own directory, whose path may be too long for a socket
        private = self._directory.store(REDIS)
        data = self._directory.redis if self._chosen.resume else None
        most_mb = self._chosen.common.redis_max_mb
        command, self.redis_url = server_command(private, data, max_mb=most_mb)

        async def probe() -> str | None:
            return self.redis_url if await redis_answers(self.redis_url) else None

        return Program(
            name=REDIS,
            command=command,
            environ=REDIS_MALLOC_TUNING | self._chosen.environ,
            log=self._directory.log_of(REDIS),
            probe=probe,
            line=redis_line,
        )

    def controller(self) -> Program:
        own = {"journal_salvage": True} if self._chosen.salvage else {}
        return self._service(CONTROLLER, CONTROLLER, own)

    @property
    def gateways(self) -> list[str]:
        """The first is simply the gateway: most meshes have one."""
        return [GATEWAY, *(f"{GATEWAY}{n}" for n in range(1, self._chosen.gateways))]

    def gateway(self, name: str, controller: str) -> Program:
        """Where ports were chosen, the first gateway has those, and the others the next ones."""
        settings, place = self._chosen.settings.of(GatewaySettings), self.gateways.index(name)
        ports = {"port": settings.port, "metrics_port": settings.metrics_port}
        own = {setting: first + place for setting, first in ports.items() if first}
        return self._service(name, GATEWAY, {"controller": controller, **own})

    def node(self, name: str, controller: str) -> Program:
        """A process of one node or several, which then have a folder of the same store each."""
        nodes = self.node_processes[name]
        own = {
            "node": ",".join(nodes),
            "port": 0,
            "controller": controller,
            "store": self._directory.store(name) if len(nodes) == 1 else self._directory.scratch,
            "slice_logs": self._directory.logs,
        }
        settings, place = self._chosen.settings.of(InvokerSettings), self.nodes.index(nodes[0])
        if settings.metrics_port:  # a port for each node
            own["metrics_port"] = settings.metrics_port + place
        wanted = parse_slices(settings.slices)
        if isinstance(wanted, Emulated | Cpu):  # nodes may have other slices in turn
            own["slices"] = wanted.from_node(place)
        return self._service(name, INVOKER, own)

    def again(self, program: Program, address: str) -> Program:
        """A program that is started again: at the same address, so that its peers find it."""
        if program.name == REDIS:
            return program  # its socket has a fixed name, and its log has the data
        service = service_of(program.name)
        port = socket_address(address)[1]
        self._ready_file(program.name).unlink(missing_ok=True)
        own: dict[str, Any] = {"port": port}
        if service == CONTROLLER and self._chosen.salvage:
            own["journal_salvage"] = False  # that was asked for once
        return replace(program, environ={**program.environ, **environment(service, own)})

    def _service(self, name: str, service: str, own: Mapping[str, Any]) -> Program:
        ready = self._ready_file(name)

        def security() -> Security:
            return probing(service, self._chosen.document())

        async def probe() -> str | None:
            if not ready.exists():
                return None
            address = ready.read_text("utf-8")
            return address if await is_serving(address, security()) else None

        return Program(
            name=name,
            # -P: a folder named esg where the user happens to be is not this package
            command=[sys.executable, "-P", "-m", f"esg.{service}"],
            environ=GRPC_TUNING
            | MALLOC_TUNING
            | self._chosen.environ
            | environment("common", {"redis_url": self.redis_url})
            | environment("common", self.secure.identity(service) if self.secure else {})
            | environment(service, own)
            | {READY_FILE: str(ready)},
            log=self._directory.log_of(name),
            probe=probe,
            line=lambda address: service_line(address, security()),
        )

    def _ready_file(self, name: str) -> Path:
        return self._directory.run / f"{name}.ready"
