"""The options of `esg up`, and the mesh that they ask for."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from esg.console.catalog import read_catalog
from esg.console.conditions import policy_names
from esg.console.options import TASKS_HELP, above_zero, at_least, from_zero
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.shipped import CPU, SHIPPED
from esg.core.catalog.slice_kinds import layout_text
from esg.errors import Rejected
from esg.invoker.slices.gpus import why_no_driver
from esg.local.machine import Machine
from esg.local.options import VGPUS, Chosen, MeshOptions
from esg.local.paper_cluster import PAYLOAD_SCALE, USUAL, nodes_for, nodes_per_process
from esg.runtime.rpc.addresses import HIGHEST_PORT
from esg.runtime.settings import DEFAULT_POLICY, CommonSettings, InvokerSettings
from esg.runtime.settings_file import Settings
from esg.runtime.slice_setting import IN_TURN, Auto, Cpu, Emulated, parse_slices

LARGEST_FACTOR = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What may be chosen about a mesh: the fields of `MeshOptions`, each an option, in the order of
    the help."""

    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default="the paper's 16 if this machine can carry them, or 1 with real slices",
            help="Worker nodes.",
        ),
    ] = None
    nodes_per_process: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default="as fit, or 1 with real slices",
            help="Nodes that share a process; with 1, one can die without the others.",
        ),
    ] = None
    gateways: Annotated[
        int,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            help="Gateways; clients may use any, and the next ports are for the others.",
        ),
    ] = 1
    vcpus: Annotated[
        int | None,
        typer.Option(
            metavar="N", callback=at_least(1), show_default="16", help="vCPUs of each node."
        ),
    ] = None
    vgpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default="7",
            help="Emulated vGPUs (MIG slices) of each node.",
        ),
    ] = None
    slices: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            show_default="emulated:7",
            help="Slices of each node: emulated:N, cpu:N (Triton servers without a GPU), mig (one "
            "on each MIG instance), gpu (one on each whole GPU), auto (what this machine has), or "
            "host:port,... of Triton servers. Instead of N, a layout of kinds: "
            "emulated:4g.40gb+3g.40gb, cpu:cpu-1+cpu-2.",
        ),
    ] = None
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            callback=above_zero(LARGEST_FACTOR),
            show_default="1",
            help="Multiplies all times and SLOs: with 0.1 everything is ten times as fast.",
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=DEFAULT_POLICY, help="The scheduling policy."),
    ] = None
    tasks: Annotated[
        TaskMode | None, typer.Option(show_default=str(TaskMode.JOINT), help=TASKS_HELP)
    ] = None
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            show_default="127.0.0.1",
            help="Address the gateway listens on; 0.0.0.0 is all interfaces, and needs --secure.",
        ),
    ] = None
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", show_default="50051", help="The gateway's port; 0 for any free one."
        ),
    ] = None
    redis_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", show_default="a new one", help="Use this Redis instead of starting one."
        ),
    ] = None
    warm_start: Annotated[
        bool | None,
        typer.Option(
            "--warm-start/--cold-start",
            show_default="warm",
            help="Whether emulated slices begin with loaded models.",
        ),
    ] = None
    payload_scale: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            callback=from_zero(LARGEST_FACTOR),
            show_default=f"{PAYLOAD_SCALE:g}",
            help="Size of emulated outputs, relative to the catalog's inputs.",
        ),
    ] = None
    noise: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            callback=from_zero(LARGEST_FACTOR),
            show_default="1",
            help="Spread of emulated durations, as a multiple of the profiled one.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            callback=at_least(0),
            show_default="0",
            help="Seed of the emulated durations.",
        ),
    ] = None
    journal: Annotated[
        bool | None,
        typer.Option(
            "--journal/--no-journal",
            show_default="journal",
            help="Whether every event is written to DIR/mesh.journal, for esg replay.",
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Resume the last mesh in DIR, with its applications, requests and results. Redis "
            "then keeps its data in DIR all the time, rather than copying it there at the end.",
        ),
    ] = False
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="With --resume, if the journal is damaged: drop what follows the damage, and log "
            "what is lost.",
        ),
    ] = False
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Services use TLS, and clients need a certificate and a token; "
            "DIR/security/client.env sets them in a shell.",
        ),
    ] = False
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", show_default="info", help="debug, info, warning or error."),
    ] = None
    settings_file: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            envvar="ESG_SETTINGS",
            help="Settings of all services, as TOML.",
        ),
    ] = None

    def mesh(self, catalog: Path | None, machine: Machine) -> MeshOptions:
        """The mesh to start on this machine."""
        if self.policy is not None and len(policy_names(self.policy)) > 1:
            raise Rejected(f"--policy is {self.policy}; a mesh has one")
        if self.port is not None and not 0 <= self.port <= HIGHEST_PORT:
            raise Rejected(f"--port is {self.port}; it must be from 0 to {HIGHEST_PORT}")
        given = {**asdict(self), "catalog": catalog}
        nodes, shared = self.nodes, self.nodes_per_process
        settings = self._settings()
        kind = parse_slices(settings.of(InvokerSettings).slices)
        if isinstance(kind, Cpu) and catalog is None and not settings.says("common", "catalog"):
            given["catalog"] = SHIPPED[CPU]  # the default one knows nothing of such slices
        if isinstance(kind, Auto) and why_no_driver():
            kind = Emulated(str(VGPUS))
            given["slices"] = str(kind)
        unsaid = self.vgpus is None and self.slices is None
        if unsaid and not settings.says("invoker", "slices") and (mixed := _mixed(settings)):
            given["slices"] = mixed
        if not isinstance(kind, Emulated):
            return MeshOptions(**given | {"nodes": nodes or 1, "nodes_per_process": shared or 1})
        nodes = nodes or nodes_for(machine)
        shared = shared or nodes_per_process(nodes, machine)
        return MeshOptions(**given | {"nodes": nodes, "nodes_per_process": shared, "usual": USUAL})

    def _settings(self) -> Settings:
        """As options, environment and settings file have them together."""
        slices = {"slices": self.slices, "vgpus": self.vgpus, "settings_file": self.settings_file}
        chosen = Chosen(MeshOptions(nodes=1, **slices))  # type: ignore[arg-type]
        return chosen.settings


def _mixed(settings: Settings) -> str:
    """The emulated slices of the nodes of the catalog's cluster, in turn, where they are of other
    kinds than the usual one, which nodes have otherwise."""
    named = settings.of(CommonSettings).catalog
    known = read_catalog(Path(named) if named else None)
    if not any(known.cluster.kinds()):
        return ""
    layouts = [layout_text(node.slices, known.kinds) for node in known.cluster.each()]
    alike = all(layout == layouts[0] for layout in layouts)
    return str(Emulated(IN_TURN.join(layouts[:1] if alike else layouts)))
