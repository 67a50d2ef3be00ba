"""`esg down`: stop the mesh that `esg up` started."""

import signal
import time
from pathlib import Path

from esg.cli.bringup.foreground import down_text, lost_text
from esg.console.exit_codes import NothingThere
from esg.console.options import AsJson, RunDir
from esg.console.terminal import print_json, terminal
from esg.errors import Rejected
from esg.local.procfs import alive, send
from esg.local.run_directory import Record, RunDirectory, default_directory, running

POLL_S = 0.05
LAYERS = 4
"""Gateway, nodes, controller and Redis are stopped one after the other."""


def down(directory: RunDir = None, as_json: AsJson = False) -> None:
    """Stop a mesh, wherever it was started from, and wait until it is gone.

    Requests that are under way may end. Logs, journal and what Redis was given stay.

    \b
    Examples:
      esg down
      esg down --dir ./my-mesh
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
        place.clear_up()
        lost, why = bool(place.not_kept), place.not_kept
        told = (
            f"the mesh in {place.path} had crashed; what it left is cleaned up; logs: {place.logs}"
        )
    else:
        _stop(place, record)
        had_redis = any(process["name"] == "redis" for process in record["processes"])
        # Its supervisor has said why, where nobody may have looked; that it is not there is seen
        lost, why = had_redis and place.journal.exists() and not place.redis.exists(), ""
        told = down_text(place.logs, _journal(record))
    if as_json:
        _print_document(place, record, crashed=crashed, lost=lost)
        return
    terminal().print(told, soft_wrap=True)
    if lost:
        terminal().print(lost_text(why), style="bold red", soft_wrap=True)


def _stop(place: RunDirectory, record: Record) -> None:
    """Tell a mesh to end, and wait until it has."""
    supervisor = record["supervisor"]
    pid, began = supervisor["pid"], supervisor["began"]
    give_up = time.monotonic() + LAYERS * record["stop_limit_s"]
    send(pid, began, signal.SIGTERM)
    while alive(pid, began):
        if time.monotonic() > give_up:
            raise Rejected(
                f"the mesh in {place.path} does not end; kill its supervisor (kill -9 {pid}), "
                "then say esg down again"
            )
        time.sleep(POLL_S)


def _journal(record: Record) -> Path | None:
    journal = record["settings"]["controller"]["journal"]
    return Path(journal) if journal else None


def _print_document(place: RunDirectory, record: Record, *, crashed: bool, lost: bool) -> None:
    journal = _journal(record)
    kept = journal is not None and journal.exists()
    print_json(
        {
            "directory": str(place.path),
            "had_crashed": crashed,
            "outputs_lost": lost,
            "logs": str(place.logs),
            "journal": str(journal) if kept else None,
        }
    )
