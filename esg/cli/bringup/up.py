"""`esg up`: a whole mesh on this machine."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from esg.cli.bringup.detached import start_detached
from esg.cli.bringup.foreground import run_mesh
from esg.cli.bringup.preflight import check_door, check_slices
from esg.cli.evaluation.training import trained_file
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import policy_names
from esg.console.options import RunDir, above_zero, at_least, from_zero
from esg.core.catalog.model import Catalog
from esg.core.policies.table import learns
from esg.emulator.scenario import Scenario, applied
from esg.errors import Rejected
from esg.local.options import Chosen, MeshOptions
from esg.local.run_directory import default_directory
from esg.runtime.catalog import load
from esg.runtime.rpc.addresses import HIGHEST_PORT
from esg.runtime.settings import DEFAULT_POLICY, ControllerSettings, InvokerSettings
from esg.runtime.slice_kinds import Addresses, Cpu, Emulated, parse_slices

LARGEST_FACTOR = 1_000


def up(
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default="4, or 1 with real slices",
            help="Worker nodes.",
        ),
    ] = None,
    vcpus: Annotated[
        int | None,
        typer.Option(
            metavar="N", callback=at_least(1), show_default="16", help="vCPUs of each node."
        ),
    ] = None,
    vgpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default="7",
            help="Emulated vGPUs (MIG slices) of each node.",
        ),
    ] = None,
    slices: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            show_default="emulated:7",
            help="Slices of each node: emulated:N, cpu:N (Triton servers without a GPU), mig (one "
            "on each MIG instance), or host:port,... of Triton servers.",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            callback=above_zero(LARGEST_FACTOR),
            show_default="1",
            help="Multiplies all times and SLOs: with 0.1 all is ten times as fast.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=DEFAULT_POLICY, help="The scheduling policy."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            show_default="127.0.0.1",
            help="Where the gateway listens; 0.0.0.0 is for everyone, and needs --secure.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", show_default="50051", help="The gateway's port; 0 for any free one."
        ),
    ] = None,
    redis_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", show_default="one is started", help="A Redis server that is there."
        ),
    ] = None,
    warm_start: Annotated[
        bool | None,
        typer.Option(
            "--warm-start/--cold-start",
            show_default="cold",
            help="Whether models are loaded at the start.",
        ),
    ] = None,
    payload_scale: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            callback=from_zero(LARGEST_FACTOR),
            show_default="1",
            help="Size of emulated outputs, relative to the catalog's inputs.",
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            callback=from_zero(LARGEST_FACTOR),
            show_default="1",
            help="Spread of emulated durations, as a multiple of the profiled one.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S", callback=at_least(0), show_default="0", help="Of the emulated durations."
        ),
    ] = None,
    journal: Annotated[
        bool | None,
        typer.Option(
            "--journal/--no-journal",
            show_default="journal",
            help="Whether every event is written to DIR/mesh.journal, for esg replay.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on where the last mesh in DIR ended, with its applications, requests and "
            "results; Redis' data are then in DIR all the time, not only from the mesh's end on.",
        ),
    ] = False,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Services speak TLS, and clients need a certificate and a token; "
            "DIR/security/client.env tells a shell how to call.",
        ),
    ] = False,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", show_default="info", help="debug, info, warning or error."),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar="ESG_SETTINGS", help="Settings of all services, as TOML."
        ),
    ] = None,
    directory: RunDir = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when all is ready; esg down stops it.")
    ] = False,
    catalog: CatalogFile = None,
) -> None:
    """Start a whole mesh on this machine: Redis, controller, gateway and worker nodes.

    Each is a process of its own, and each node has its own local store. Ctrl-C lets requests that
    are under way end, stops everything, and leaves logs, journal and Redis' data. All settings of
    the services can be given in a file or in the environment; docs/settings.md lists them.

    \b
    Examples:
      esg up
      esg up --scale 0.1 --nodes 2 --warm-start
      esg up --slices cpu:2
      esg up --secure --dir ./my-mesh
      esg up --resume --dir ./my-mesh
      esg up --detach --port 0 --dir ./my-mesh
      ESG_CONTROLLER_PREWARM=false esg up --policy infless
    """
    if policy is not None and len(policy_names(policy)) > 1:
        raise Rejected(f"--policy is {policy}; a mesh has one")
    if port is not None and not 0 <= port <= HIGHEST_PORT:
        raise Rejected(f"--port is {port}; it must be from 0 to {HIGHEST_PORT}")
    if catalog is not None:
        read_catalog(catalog)
    if nodes is None:
        nodes = 4 if slices is None or slices.startswith("emulated") else 1
    options = MeshOptions(
        nodes=nodes,
        vcpus=vcpus,
        vgpus=vgpus,
        slices=slices,
        scale=scale,
        policy=policy,
        host=host,
        port=port,
        redis_url=redis_url,
        catalog=catalog,
        warm_start=warm_start,
        payload_scale=payload_scale,
        noise=noise,
        seed=seed,
        journal=journal,
        resume=resume,
        secure=secure,
        log_level=log_level,
        settings_file=settings,
    )
    chosen = Chosen(options)  # what is wrong with settings is said before anything starts
    check_door(chosen)
    check_slices(chosen)
    options = _with_what_was_learnt(options, chosen)
    where = directory or default_directory()
    if detach:
        code = start_detached(options, where)
    else:
        code = run_mesh(options, where)
    raise typer.Exit(code)


def _with_what_was_learnt(options: MeshOptions, chosen: Chosen) -> MeshOptions:
    """If the policy learns before it runs, and nobody says where that is kept, it learns now."""
    controller = chosen.settings.of(ControllerSettings)
    if controller.trained or not learns(controller.policy):
        return options
    file = trained_file(_seen(chosen), shown=True)
    return replace(options, more={**options.more, "controller": {"trained": str(file)}})


def _seen(chosen: Chosen) -> Catalog:
    """The catalog with what fits a node: a config that is too large would wait for ever."""
    catalog = load(chosen.common)
    node = chosen.settings.of(InvokerSettings)
    match parse_slices(node.slices):
        case Emulated(count) | Cpu(count):
            vgpus = count
        case Addresses(addresses):
            vgpus = len(addresses)
        case _:  # MIG instances are counted by the node itself
            vgpus = catalog.cluster.vgpus
    vcpus = node.vcpus or len(os.sched_getaffinity(0))
    return applied(catalog, Scenario(nodes=chosen.nodes, vcpus=vcpus, vgpus=vgpus))
