"""`esg apps`: the applications of a catalog or of a live mesh, and changes of the latter."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from esg.cli.requests.application_file import read_applications
from esg.cli.requests.connection import run_live
from esg.client import ApplicationInfo, AsyncClient, PipelineStage
from esg.console.catalog import CatalogFile
from esg.console.formatting import joined, ms_text
from esg.console.options import AsJson, Gateway
from esg.console.ports import port_document, ports_text
from esg.console.terminal import Column, print_json, print_line, print_rows, terminal
from esg.core.catalog.application_table import ApplicationTable
from esg.errors import Rejected
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.units import ms

PATIENCE_S = 2.0

app = typer.Typer(rich_markup_mode=None)

ApplicationsFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="TOML file with [applications.NAME] tables, or a catalog."),
]


@app.callback(invoke_without_command=True)
def apps(
    context: typer.Context,
    gateway: Annotated[
        str | None,
        typer.Option(
            "--gateway",
            metavar="ADDRESS",
            envvar="ESG_GATEWAY",
            show_default=False,
            help="Show the applications of the mesh whose gateway listens there, as host:port.",
        ),
    ] = None,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the applications of a catalog, or of a live mesh; change those of a mesh.

    With --gateway (or ESG_GATEWAY) a live mesh is asked. Without, a catalog is read, with its
    functions and its cluster; --catalog reads one whatever ESG_GATEWAY says.

    \b
    Examples:
      esg apps
      esg apps --json | jq '.applications[].name'
      esg apps --gateway 127.0.0.1:50051
      esg apps add portrait.toml
      esg apps update portrait.toml
      esg apps remove portrait
    """
    given = [name for name in ("gateway", "catalog", "as_json") if _given(context, name)]
    if context.invoked_subcommand is not None:
        if given:
            raise Rejected(f"options go behind the command: esg apps {context.invoked_subcommand}")
        return
    if "gateway" in given and "catalog" in given:
        raise Rejected("--gateway shows a mesh and --catalog a file; give one of them")
    if gateway and "catalog" not in given:
        _show_mesh(gateway, run_live(_listed(gateway)), as_json=as_json)
        return
    from esg.cli.requests.apps import show_catalog  # needs an extra, which calling a mesh does not

    show_catalog(catalog, as_json=as_json)


@app.command(short_help="Add the applications of a file to a live mesh.")
def add(
    file: ApplicationsFile, gateway: Gateway = DEFAULT_GATEWAY, as_json: AsJson = False
) -> None:
    """Add the applications of a file to a live mesh, made of functions that it has.

    Of a catalog, only the [applications] are read. They are kept until the mesh ends, and by esg up
    --resume beyond that.

    \b
    A file may be as short as this:
      [applications.portrait]
      chain = ["deblur", "depth"]
      slo_ms = 900
    """
    _change("added", read_applications(file), gateway, as_json=as_json)


@app.command(short_help="Replace applications of a live mesh by those of a file.")
def update(
    file: ApplicationsFile, gateway: Gateway = DEFAULT_GATEWAY, as_json: AsJson = False
) -> None:
    """Replace applications of a live mesh by those of the same names in a file.

    Requests in flight keep the version they began with.
    """
    _change("updated", read_applications(file), gateway, as_json=as_json)


@app.command(short_help="Remove applications from a live mesh.")
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="As esg apps shows them.")],
    gateway: Gateway = DEFAULT_GATEWAY,
    as_json: AsJson = False,
) -> None:
    """Remove applications from a live mesh. Requests in flight are still answered."""
    removed: list[str] = []
    try:
        run_live(_remove(gateway, names, removed))
    finally:
        if as_json:
            print_json({"gateway": gateway, "removed": removed})
        for name in () if as_json else removed:
            print_line(terminal(), f"removed {name}")


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _change(how: str, tables: list[ApplicationTable], gateway: str, *, as_json: bool) -> None:
    """Send one application after the other, and show those that the mesh took."""
    taken: list[ApplicationInfo] = []
    try:
        run_live(_send(gateway, tables, taken, update=how == "updated"))
    finally:
        if as_json:
            print_json(_document(gateway, taken))
        for told in () if as_json else taken:
            version = f", version {told.version}" if told.version > 1 else ""
            print_line(terminal(), f"{how} {told.name}: SLO of {told.slo_ms:g} ms{version}")


async def _send(
    gateway: str, tables: list[ApplicationTable], taken: list[ApplicationInfo], *, update: bool
) -> None:
    async with AsyncClient(gateway, patience_s=PATIENCE_S) as mesh:
        for table in tables:
            send = mesh.update_application if update else mesh.register_application
            taken.append(
                await send(
                    table.name,
                    [PipelineStage(s.function, s.after, s.name) for s in table.stages],
                    slo_ms=table.slo_ms,
                    slo_scale=table.slo_scale,
                    late_requests=table.late_requests,
                )
            )


async def _remove(gateway: str, names: list[str], removed: list[str]) -> None:
    async with AsyncClient(gateway, patience_s=PATIENCE_S) as mesh:
        for name in names:
            await mesh.delete_application(name)
            removed.append(name)


async def _listed(gateway: str) -> list[ApplicationInfo]:
    async with AsyncClient(gateway, patience_s=PATIENCE_S) as mesh:
        return await mesh.list_applications()


def _show_mesh(gateway: str, found: list[ApplicationInfo], *, as_json: bool) -> None:
    if as_json:
        print_json(_document(gateway, found))
        return
    screen = terminal()
    print_line(screen, f"Applications of the mesh at {gateway}:\n")
    print_rows(
        screen,
        "application",
        {
            told.name: Text.assemble(
                (told.name, "bold"),
                f"\n{stages_text(told.stages)}",
                f"\n{ports_text(told.inputs, told.outputs)}",
            )
            for told in found
        },
        [
            Column("version", [str(told.version) for told in found]),
            Column("SLO ms", [ms_text(ms(told.slo_ms)) for told in found]),
            Column("L ms", [ms_text(ms(told.alone_ms)) for told in found]),
            Column("fastest ms", [ms_text(ms(told.fastest_ms)) for told in found]),
        ],
    )
    print_line(
        screen,
        "\nL is the time alone at the minimum config; fastest is with every stage at its fastest.",
    )


def stages_text(stages: tuple[PipelineStage, ...]) -> str:
    """A DAG on one line: a chain with arrows, anything else with what each stage comes after.

    >>> stages_text((PipelineStage("a"), PipelineStage("b", ("a",), "again")))
    'a -> again (b)'
    >>> stages_text((PipelineStage("a"), PipelineStage("b", ("a",)), PipelineStage("c", ("a",))))
    'a; b after a; c after a'
    """
    names = [stage.name or stage.function for stage in stages]
    shown = [
        name if name == stage.function else f"{name} ({stage.function})"
        for name, stage in zip(names, stages, strict=True)
    ]
    before = [(), *((name,) for name in names[:-1])]
    if [stage.after for stage in stages] == before:
        return " -> ".join(shown)
    return "; ".join(
        f"{name} after {joined(stage.after)}" if stage.after else name
        for name, stage in zip(shown, stages, strict=True)
    )


def _document(gateway: str, found: list[ApplicationInfo]) -> dict[str, Any]:
    return {
        "gateway": gateway,
        "applications": [
            {
                "name": told.name,
                "version": told.version,
                "stages": [
                    {
                        "name": stage.name or stage.function,
                        "function": stage.function,
                        "after": list(stage.after),
                    }
                    for stage in told.stages
                ],
                "slo_ms": told.slo_ms,
                "alone_ms": told.alone_ms,
                "fastest_ms": told.fastest_ms,
                "late_requests": told.late_requests.value,
                "inputs": [port_document(port) for port in told.inputs],
                "outputs": [port_document(port) for port in told.outputs],
            }
            for told in found
        ],
    }
