"""`esg logs`: what the processes of a mesh have logged, and what they log now."""

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from esg.console.options import RunDir, at_least
from esg.errors import Rejected
from esg.local.programs import has_node
from esg.local.run_directory import RunDirectory, default_directory, running
from esg.suggest import did_you_mean

POLL_S = 0.2
SUPERVISOR = "mesh"
"""What the log of a mesh in the background is called, besides those of its processes."""


def logs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            show_default=False,
            help="One process, as esg status names it, or one node; all by default.",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("-f", "--follow", help="Print new lines until Ctrl-C, or the mesh is down."),
    ] = False,
    lines: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--lines",
            metavar="N",
            callback=at_least(0),
            show_default="all",
            help="Print only the last N lines of each.",
        ),
    ] = None,
    directory: RunDir = None,
) -> None:
    """Show the logs of a mesh that esg up started, also after it has ended.

    Without a name, those of all processes, one after the other, each line prefixed with its
    process.

    \b
    Examples:
      esg logs
      esg logs gateway -n 20
      esg logs -f
      esg logs node0 -f --dir ./my-mesh
    """
    shown = MeshLogs(RunDirectory(directory or default_directory()), name)
    if not shown.print_new(last=lines, partial=not follow):
        raise shown.refusal()
    if follow:
        with suppress(KeyboardInterrupt):  # the usual end
            shown.follow()


class MeshLogs:
    """The log files of a mesh, or the one of a process."""

    def __init__(self, place: RunDirectory, name: str | None) -> None:
        self._place = place
        self._name = name
        self._files: dict[str, LogFile] = {}

    def print_new(self, *, last: int | None = None, partial: bool = False) -> bool:
        """Print what is new; whether there is any log at all."""
        for name, path in self._paths().items():
            if self._name in (None, name) or has_node(name, self._name):
                file = self._files.setdefault(name, LogFile(path))
                before = "" if self._name else f"{name} | "
                for line in file.new_lines(self._wanted(name), last, partial=partial):
                    print(f"{before}{line}", flush=True)
        return bool(self._files)

    def _wanted(self, process: str) -> str:
        """What a line has to have in it: of a process with several nodes, the one that is asked
        for."""
        return self._name if self._name is not None and self._name != process else ""

    def follow(self) -> None:
        """Print what comes, until the mesh is down."""
        while running(self._place.read()):
            self.print_new()
            time.sleep(POLL_S)
        self.print_new(partial=True)

    def refusal(self) -> Rejected:
        known = self._paths()
        if self._name is not None and known:
            return Rejected(did_you_mean("process", self._name, known))
        return Rejected(
            f"no logs in {self._place.path}; start a mesh with esg up, or name its directory with "
            "--dir or ESG_DIR"
        )

    def _paths(self) -> dict[str, Path]:
        """The files that are there now, by process; more come while a mesh starts."""
        own = {SUPERVISOR: self._place.log} if self._place.log.exists() else {}
        return own | {path.stem: path for path in sorted(self._place.logs.glob("*.log"))}


class LogFile:
    """A file that grows, and that another mesh may begin anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._read_bytes = 0

    def new_lines(
        self, wanted: str, last: int | None = None, *, partial: bool = False
    ) -> Iterator[str]:
        """Lines since the last look that have this in them, or the last ones of them. One without
        an end is still being written, and kept for later unless partial ones are wanted."""
        try:
            file = self._path.open("rb")
        except OSError:
            return  # a new mesh has just removed it
        with file:
            seen = os.fstat(file.fileno())
            if seen.st_ino != self._inode or seen.st_size < self._read_bytes:
                self._inode, self._read_bytes = seen.st_ino, 0
            file.seek(self._read_bytes)
            lines = self._lines(file, partial=partial)
            found = (line for line in lines if wanted.encode() in line)
            for line in found if last is None else deque(found, maxlen=last):
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                yield "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)

    def _lines(self, file: BinaryIO, *, partial: bool) -> Iterator[bytes]:
        for line in file:
            if not partial and not line.endswith(b"\n"):
                return
            self._read_bytes += len(line)
            yield line
