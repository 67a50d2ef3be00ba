"""`esg down`: stop the mesh that `esg up` started."""

import signal
import time
from pathlib import Path

from esg.cli.bringup.foreground import down_text, lost_text
from esg.console.options import RunDir
from esg.console.terminal import terminal
from esg.errors import Rejected
from esg.local.procfs import alive, send
from esg.local.run_directory import RunDirectory, default_directory, running

POLL_S = 0.05
LAYERS = 4
"""Gateway, nodes, controller and Redis are stopped one after the other."""


def down(directory: RunDir = None) -> None:
    """Stop a mesh, wherever it was started from, and wait until it has stopped.

    Requests in flight are finished first. Logs, journal and Redis' data are kept.

    \b
    Examples:
      esg down
      esg down --dir ./my-mesh
    """
    place = RunDirectory(directory or default_directory())
    record = place.read()
    if record is None:
        raise Rejected(
            f"no mesh is running in {place.path}; start one with esg up, or name its directory "
            "with --dir or ESG_DIR"
        )
    if not running(record):
        place.clear_up()
        terminal().print(
            f"the mesh in {place.path} had crashed; what it left is cleaned up; logs: {place.logs}",
            soft_wrap=True,
        )
        if place.not_kept:
            _tell_of_loss(place.not_kept)
        return
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
    journal = record["settings"]["controller"]["journal"]
    told = down_text(place.logs, Path(journal) if journal else None)
    terminal().print(told, soft_wrap=True)
    had_redis = any(process["name"] == "redis" for process in record["processes"])
    # Its supervisor has said why, where nobody may have looked; that it is not there can be seen
    if had_redis and place.journal.exists() and not place.redis.exists():
        _tell_of_loss()


def _tell_of_loss(why: str = "") -> None:
    terminal().print(lost_text(why), style="bold red", soft_wrap=True)
