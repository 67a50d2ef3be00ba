"""The catalog's side of `esg apps`: what there is to plan for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from esg.console.catalog import read_catalog, warn_of_deadlines
from esg.console.conditions import cluster_text
from esg.console.formatting import ms_text
from esg.console.handled import handled_notes
from esg.console.ports import port_document, ports_text
from esg.console.shapes import shape_text
from esg.console.terminal import Column, print_json, print_line, print_rows, terminal
from esg.core.catalog.model import Application, Catalog, Function
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.catalog.shipped import DEFAULT
from esg.core.catalog.slice_kinds import layout_text
from esg.core.catalog.unplanned import real_name
from esg.units import to_ms


def show_catalog(catalog: Path | None, *, as_json: bool) -> None:
    """Show a catalog's applications, their functions and the cluster."""
    whole = read_catalog(catalog)
    known = on_its_cluster(whole)
    warn_of_deadlines(known, catalog)
    if as_json:
        print_json({"catalog": str(catalog or DEFAULT), **_document(known, whole)})
        return
    screen = terminal()
    named = "ESG's own catalog" if catalog is None else f"the catalog {catalog}"
    print_line(screen, f"Applications of {named}; --gateway shows those of a mesh.\n")
    _print_applications(screen, known)
    screen.print(
        "\nL is the time alone at the minimum config; fastest is with every stage at its fastest.\n"
    )
    _print_functions(screen, known, whole)
    for note in handled_notes(known.functions.values()):
        screen.print(f"\n{note}")
    _print_cluster(screen, known)


def _print_cluster(screen: Console, known: Catalog) -> None:
    cluster, prices = known.cluster, known.prices
    kinds = list(known.kinds.values())
    if len(kinds) == 1:
        name = f" ({kinds[0].name})" if kinds[0].name else ""
        screen.print(
            f"\nCluster: {cluster.nodes} x {cluster.vcpus} vCPUs and {cluster.vgpus} vGPUs{name} "
            f"of {known.slice_memory_mb} MB; {prices.vcpu_usd_per_hour} USD per vCPU and hour, "
            f"{prices.vgpu_usd_per_hour} USD per vGPU and hour."
        )
        return
    screen.print(
        f"\nCluster: {cluster_text(cluster, known.kinds)}; {prices.vcpu_usd_per_hour} USD per vCPU "
        "and hour.\n"
    )
    here = {known.kinds[kind].name for kind in cluster.kinds()}
    print_rows(
        screen,
        "kind of slices",
        {kind.name: kind.name for kind in kinds},
        [
            Column("MB", [str(kind.memory_mb) for kind in kinds]),
            Column("USD per hour", [f"{kind.usd_per_hour:g}" for kind in kinds]),
            Column("", ["in the cluster" if kind.name in here else "" for kind in kinds], "left"),
        ],
    )


def _document(known: Catalog, whole: Catalog) -> dict[str, Any]:
    cluster, prices = known.cluster, known.prices
    return {
        "applications": [_application(application) for application in known.applications.values()],
        "functions": [
            {**_function(function), "kinds": kinds_of(function.name, whole)}
            for function in known.functions.values()
        ],
        "cluster": {
            "nodes": cluster.nodes,
            "vcpus": cluster.vcpus,
            "vgpus": cluster.vgpus,
            "slice_memory_mb": known.slice_memory_mb,
            "layouts": [layout_text(one.slices, known.kinds) for one in cluster.classes],
        },
        "kinds": [
            {
                "kind": kind.name,
                "memory_mb": kind.memory_mb,
                "usd_per_hour": kind.usd_per_hour,
            }
            for kind in known.kinds.values()
        ],
        "prices": {
            "vcpu_usd_per_hour": prices.vcpu_usd_per_hour,
            "vgpu_usd_per_hour": prices.vgpu_usd_per_hour,
        },
    }


def kinds_of(function: str, whole: Catalog) -> list[str]:
    """The kinds of slices that it is profiled for, by name."""
    return [real_name(whole, kind) for kind in whole.functions[function].profile.kinds]


def _application(application: Application) -> dict[str, Any]:
    return {
        "name": application.name,
        "stages": [
            {"name": stage.name, "function": stage.function.name, "after": list(stage.after)}
            for stage in application.stages.values()
        ],
        "slo_ms": to_ms(application.slo_us),
        "alone_ms": to_ms(application.alone_us),
        "fastest_ms": to_ms(application.fastest_us()[application.root]),
        "inputs": [port_document(port) for port in application.inputs],
        "outputs": [port_document(port, name) for name, (_, port) in application.outputs.items()],
    }


def _function(function: Function) -> dict[str, Any]:
    return {
        "name": function.name,
        "model": function.model,
        "configs": len(function.profile.configs),
        "cold_start_ms": to_ms(function.cold_start_us),
        "input_mb": function.input_bytes / 1_000_000,
        "memory_mb": function.memory_mb,
        "min_config_ms": to_ms(function.profile.time_us_of(function.profile.minimum)),
        "modelled_cpu": function.profile.cpu,
        "handler_cpu": function.cpu if function.handler else None,
        "inputs": [port_document(port) for port in function.inputs],
        "outputs": [port_document(port) for port in function.outputs],
    }


def _print_applications(screen: Console, known: Catalog) -> None:
    applications = list(known.applications.values())
    print_rows(
        screen,
        "application",
        {
            one.name: Text.assemble(
                (one.name, "bold"), f"\n{_stages_text(one)}", f"\n{_ports_text(one)}"
            )
            for one in applications
        },
        [
            Column("SLO ms", [ms_text(one.slo_us) for one in applications]),
            Column("L ms", [ms_text(one.alone_us) for one in applications]),
            Column("fastest ms", [ms_text(one.fastest_us()[one.root]) for one in applications]),
        ],
    )


def _stages_text(application: Application) -> str:
    """The shape, and which function a stage runs where its name does not say so."""
    runs = [
        f"{stage.name} runs {stage.function.name}"
        for stage in application.stages.values()
        if stage.name != stage.function.name
    ]
    shape = shape_text(application)
    return f"{shape}\n{', '.join(runs)}" if runs else shape


def _ports_text(application: Application) -> str:
    outputs = application.outputs.items()
    return ports_text(application.inputs, [replace(port, name=name) for name, (_, port) in outputs])


def _print_functions(screen: Console, known: Catalog, whole: Catalog) -> None:
    functions = list(known.functions.values())
    profiled = [", ".join(kinds_of(one.name, whole)) for one in functions]
    several = len(whole.kinds) > 1
    alone_us = [one.profile.time_us_of(one.profile.minimum) for one in functions]
    print_rows(
        screen,
        "function",
        {one.name: one.name for one in functions},
        [
            Column("model", [one.model for one in functions], justify="left"),
            Column("configs", [str(len(one.profile.configs)) for one in functions]),
            Column("alone\nms", [ms_text(us) for us in alone_us]),
            Column("cold\nstart ms", [ms_text(one.cold_start_us) for one in functions]),
            Column("input\nMB", [f"{one.input_bytes / 1_000_000:g}" for one in functions]),
            Column("memory\nMB", [str(one.memory_mb) for one in functions]),
            *([Column("profiled for", profiled, justify="left")] * several),
        ],
    )
