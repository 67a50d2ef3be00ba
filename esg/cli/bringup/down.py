"""`esg down`: stop the mesh that `esg up` started."""

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from esg.cli.bringup.foreground import down_text, left_text
from esg.console.exit_codes import NOT_WELL, NothingThere
from esg.console.options import AsJson, RunDir
from esg.console.terminal import print_json, terminal
from esg.errors import Rejected
from esg.local.procfs import alive, send
from esg.local.run_directory import Record, RunDirectory, default_directory, running

POLL_S = 0.05
LAYERS = 4
"""Gateway, nodes, controller and Redis are stopped one after the other."""


Discard = Annotated[
    bool, typer.Option("--discard", help="Delete Redis' data if there is no room for it.")
]


def down(directory: RunDir = None, discard: Discard = False, as_json: AsJson = False) -> None:
    """Stop a mesh, wherever it was started from, and wait until it has stopped.

    Requests in flight are finished first. Logs, journal and Redis' data are kept; if the data
    cannot be copied to the mesh's directory, it stays where it is, and the exit code is 1.

    \b
    Examples:
      esg down
      esg down --dir ./my-mesh
      esg down --discard --dir ./my-mesh
    """
    place = RunDirectory(directory or default_directory())
    record = place.read()
    if record is None:
        raise NothingThere(
            f"no mesh is running in {place.path}; start one with esg up, or name its directory "
            "with --dir or ESG_DIR"
        )
    crashed = not running(record)
    if crashed:
        place.clear_up(keep=not discard)
        told = f"the mesh in {place.path} had ended; what it left is cleaned up; logs: {place.logs}"
    else:
        _stop(place, record)
        told = down_text(place.logs, _journal(record))
    left = place.left_behind
    if left is not None and discard:
        place.clear_up(keep=False)
        left = None
    if as_json:
        _print_document(place, record, crashed=crashed, left=left)
    elif left is None:
        terminal().print(told, soft_wrap=True)
    else:
        told = f"the mesh is down; {left_text(place, left)}"
        terminal().print(told, style="bold red", soft_wrap=True)
    if left is not None:
        raise typer.Exit(NOT_WELL)


def _stop(place: RunDirectory, record: Record) -> None:
    """Have its supervisor end it, and wait until it has."""
    supervisor = record["supervisor"]
    pid, began = supervisor["pid"], supervisor["began"]
    give_up = time.monotonic() + LAYERS * record["stop_limit_s"]
    send(pid, began, signal.SIGTERM)
    while alive(pid, began):
        if time.monotonic() > give_up:
            raise Rejected(
                f"the mesh in {place.path} does not end; kill its supervisor (kill -9 {pid}), "
                "then run esg down again"
            )
        time.sleep(POLL_S)


def _journal(record: Record) -> Path | None:
    journal = record["settings"]["controller"]["journal"]
    return Path(journal) if journal else None


def _print_document(
    place: RunDirectory, record: Record, *, crashed: bool, left: Path | None
) -> None:
    journal = _journal(record)
    kept = journal is not None and journal.exists()
    print_json(
        {
            "directory": str(place.path),
            "had_crashed": crashed,
            "left_behind": None if left is None else str(left),
            "logs": str(place.logs),
            "journal": str(journal) if kept else None,
        }
    )
