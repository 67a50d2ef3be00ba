"""`esg down`: stop the mesh that `esg up` started."""

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from esg.cli.bringup.foreground import down_text, left_text
from esg.console.options import RunDir
from esg.console.terminal import terminal
from esg.errors import Rejected
from esg.local.procfs import alive, send
from esg.local.run_directory import Record, RunDirectory, default_directory, running

POLL_S = 0.05
LAYERS = 4
"""Gateway, nodes, controller and Redis are stopped one after the other."""


Discard = Annotated[
    bool, typer.Option("--discard", help="Delete Redis' data if there is no room for it.")
]


def down(directory: RunDir = None, discard: Discard = False) -> None:
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
        raise Rejected(
            f"no mesh is running in {place.path}; start one with esg up, or name its directory "
            "with --dir or ESG_DIR"
        )
    if running(record):
        told = _stop(place, record)
    else:
        place.clear_up(keep=not discard)
        told = f"the mesh in {place.path} had ended; what it left is cleaned up; logs: {place.logs}"
    left = place.left_behind
    if left is not None and discard:
        place.clear_up(keep=False)
        left = None
    screen = terminal()
    if left is None:
        screen.print(told, soft_wrap=True)
        return
    screen.print(f"the mesh is down; {left_text(place, left)}", style="bold red", soft_wrap=True)
    raise typer.Exit(1)


def _stop(place: RunDirectory, record: Record) -> str:
    """Have its supervisor end it; then where to read what happened."""
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
    journal = record["settings"]["controller"]["journal"]
    return down_text(place.logs, Path(journal) if journal else None)
