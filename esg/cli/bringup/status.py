"""`esg status`: the processes of a mesh, and how they are."""

import asyncio
from pathlib import Path
from typing import Any

from rich.console import Console

from esg.cli.bringup.foreground import gateways_text
from esg.cli.bringup.slices_told import ToldSlices
from esg.console.exit_codes import NothingThere
from esg.console.formatting import counted
from esg.console.options import AsJson, RunDir
from esg.console.terminal import (
    Column,
    fits,
    open_table,
    print_json,
    print_line,
    print_rows,
    terminal,
)
from esg.local.health import is_refusing, is_serving, redis_answers
from esg.local.procfs import alive, in_session
from esg.local.programs import CONTROLLER, service_of
from esg.local.run_directory import Record, RunDirectory, default_directory, running
from esg.local.secure import probing

MB = 1_000_000
TAKES_REQUESTS = "esg.controller.v1.Controller"
NO_ROOM = "disk full"


def status(directory: RunDir = None, as_json: AsJson = False) -> None:
    """Show the processes of a mesh that esg up started.

    CPU time and memory of a node include the slices that it runs. Emulated nodes may share a
    process, which is named by the first and the last of them.

    \b
    Examples:
      esg status
      esg status --json | jq -r .gateway
    """
    place = RunDirectory(directory or default_directory())
    record = place.read()
    if record is None or not running(record):
        crashed = "the mesh in" if record else "no mesh is running in"
        ending = (
            " has ended and left files behind; esg down removes them"
            if record
            else "; start one with esg up"
        )
        raise NothingThere(f"{crashed} {place.path}{ending}")
    rows = asyncio.run(_rows(place, record))
    nodes = sum(len(row["nodes"]) for row in rows)
    slices = ToldSlices.of_mesh(record["settings"], nodes)
    if as_json:
        print_json(
            {
                "directory": str(place.path),
                "gateway": record["gateway"],
                "gateways": record["gateways"],
                "controller": record["controller"],
                "up": record["up"],
                "settings": record["settings"],
                "processes": rows,
                "slices": slices.layouts,
                "not_planned": slices.notes,
            }
        )
        return
    screen = terminal()
    print_processes(screen, rows)
    for row in rows:
        if len(row["nodes"]) > 1:
            what = f"{counted(len(row['nodes']), 'node')}, each with a link, a store and slices"
            print_line(screen, f"\n{row['name']}: {what}")
        if row["state"] == NO_ROOM:
            why = "no room for its journal; new requests are refused until there is"
            print_line(screen, f"\n{row['name']}: {why}")
        if row["last_words"]:
            words = f"has ended and is being restarted; its log ends: {row['last_words']}"
            print_line(screen, f"\n{row['name']} {words}")
    if slices.layouts:
        print_line(screen, f"\n{slices.text}")
    for note in slices.notes:
        print_line(screen, note)
    print_line(screen, f"\n{gateways_text(record['gateways'])}; logs: {place.logs}")


async def _rows(place: RunDirectory, record: Record) -> list[dict[str, Any]]:
    settings = record["settings"]
    rows = (_row(place, process, settings) for process in record["processes"])
    return list(await asyncio.gather(*rows))


async def _row(
    place: RunDirectory, process: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    leader = alive(process["pid"], process["began"])
    all_of_it = in_session(process["pid"]) if leader else []
    return {
        "name": process["name"],
        "nodes": process.get("nodes", []),
        "pid": process["pid"],
        "state": await _state(process, settings) if leader else "restarting",
        "address": process["address"],
        "exit_code": process["exit_code"],
        "last_words": "" if leader else _last_words(place.log_of(process["name"])),
        "uptime_s": round(leader.age_s, 1) if leader else None,
        "cpu_s": round(sum(seen.cpu_s for seen in all_of_it), 2) if leader else None,
        "memory_mb": round(sum(s.memory_bytes for s in all_of_it) / MB, 1) if leader else None,
    }


async def _state(process: dict[str, Any], settings: dict[str, Any]) -> str:
    """What it says about itself; while it starts or stops, what its supervisor says."""
    if process["state"] != "ready":
        return str(process["state"])
    address = process["address"]
    if address.startswith("unix:"):
        return "serving" if await redis_answers(address) else "not serving"
    security = probing(service_of(process["name"]), settings)
    if not await is_serving(address, security):
        return "not serving"
    if process["name"] == CONTROLLER and await is_refusing(address, security, TAKES_REQUESTS):
        return NO_ROOM
    return "serving"


def _last_words(log: Path) -> str:
    """The last line of what a process had to say."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def print_processes(screen: Console, rows: list[dict[str, Any]]) -> None:
    """Print a table with a row per process. On a narrow screen the addresses are below it, whole:
    they are there to be copied."""
    columns = _columns(rows)
    table = open_table()
    for heading in ("name", "state", "address"):
        table.add_column(heading, overflow="fold")
    for column in columns[1:]:
        table.add_column(column.heading, justify=column.justify, no_wrap=True)
    for number, row in enumerate(rows):
        figures = (column.texts[number] for column in columns[1:])
        table.add_row(row["name"], row["state"], row["address"], *figures)
    if fits(table, screen):
        screen.print(table)
        return
    print_rows(screen, "name", {row["name"]: row["name"] for row in rows}, columns)
    screen.print()
    for row in rows:
        print_line(screen, f"{row['name']}: {row['address']}")


def _columns(rows: list[dict[str, Any]]) -> list[Column]:
    def figures(name: str) -> list[str]:
        return ["-" if row[name] is None else f"{row[name]:.1f}" for row in rows]

    return [
        Column("state", [row["state"] for row in rows], "left"),
        Column("pid", [str(row["pid"]) for row in rows]),
        Column("up s", figures("uptime_s")),
        Column("CPU s", figures("cpu_s")),
        Column("MB", figures("memory_mb")),
    ]
