"""`esg up`: a whole mesh on this machine."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from esg.cli.bringup.detached import start_detached
from esg.cli.bringup.foreground import run_mesh
from esg.cli.bringup.introduction import introduction
from esg.cli.bringup.preflight import check_deadlines, check_door, check_slices, warn_of_slices
from esg.cli.bringup.up_options import UpOptions
from esg.cli.evaluation.training import trained_file
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.options import AsJson, RunDir
from esg.console.terminal import print_line, terminal
from esg.core.catalog.cluster import Cluster
from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import NodeClass
from esg.core.policies.table import learns
from esg.emulator.scenario import Scenario, applied, sized
from esg.errors import Rejected
from esg.invoker.slices.kinds import kinds_of
from esg.local.machine import this_machine
from esg.local.options import Chosen, MeshOptions
from esg.local.run_directory import default_directory
from esg.runtime.catalog import load
from esg.runtime.settings import ControllerSettings, InvokerSettings


def up(
    options: UpOptions,
    directory: RunDir = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", help="Run in the background: return when all is ready; esg down stops it."
        ),
    ] = False,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Start a whole mesh on this machine: Redis, controller, gateway and worker nodes.

    Without options it is the paper's cluster, emulated: 16 nodes of 16 vCPUs and 7 vGPUs with their
    models loaded, ready for loadgen --rate heavy; on a machine that is too small for it, a part of
    it. Each node has its own local store and its own link to the controller. Ctrl-C finishes
    requests in flight, stops everything, and keeps logs, journal and Redis' data. All settings of
    the services can be given in a file or in the environment; docs/settings.md lists them.

    \b
    Examples:
      esg up
      esg up --scale 0.1 --nodes 2 --cold-start
      esg up --slices cpu:2
      esg up --secure --dir ./my-mesh
      esg up --resume --dir ./my-mesh
      esg up --detach --port 0 --dir ./my-mesh --json | jq -r .gateway
      ESG_CONTROLLER_PREWARM=false esg up --policy infless
    """
    if as_json and not detach:
        raise Rejected("--json tells where a mesh is that runs on; say --detach as well")
    machine = this_machine()
    asked = options.mesh(catalog, machine)
    if catalog is not None:
        read_catalog(catalog)
    chosen = Chosen(asked)  # what is wrong with settings is said before anything starts
    check_door(chosen)
    check_slices(chosen)
    check_deadlines(chosen)
    warn_of_slices(chosen)
    words = "" if as_json else introduction(chosen, machine, sized=options.nodes is None)
    learnt, place = _with_what_was_learnt(asked, chosen), directory or default_directory()
    if detach:  # if nobody listens, it starts all the same
        started = words.replace("starting", "started", 1)
        raise typer.Exit(start_detached(learnt, place, started, as_json=as_json))
    if words:
        print_line(terminal(), words)
    raise typer.Exit(run_mesh(learnt, place))


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
    vcpus = node.vcpus or len(os.sched_getaffinity(0))
    cluster = Cluster.of(
        NodeClass(count=1, vcpus=vcpus, slices=kinds_of(node, catalog, number))
        for number in range(chosen.nodes)
    )
    return applied(catalog, Scenario(**sized(cluster)))
