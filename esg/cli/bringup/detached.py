"""A mesh in the background: started here, and left when all of it is ready."""

import json
import shlex
import sys
import time
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any

from esg.cli.bringup.foreground import gateways_text, try_text
from esg.console.formatting import counted
from esg.console.terminal import print_json, print_line, terminal
from esg.errors import Rejected
from esg.local.options import MeshOptions
from esg.local.run_directory import RunDirectory, default_directory, running
from esg.local.secure import SecureFolder

POLL_S = 0.02
REFUSED = 2


def start_detached(
    options: MeshOptions, path: Path, introduction: str = "", *, as_json: bool = False
) -> int:
    """Start a mesh in the background, and give the exit code: 0 when the mesh is up, else the
    supervisor's own."""
    directory = RunDirectory(path)
    if running(directory.read()):
        raise directory.taken()
    directory.make_private()
    command = [sys.executable, "-P", "-m", "esg.cli.bringup.foreground", str(directory.path)]
    with directory.log.open("wb") as log:
        supervisor = Popen(
            command,
            stdin=PIPE,
            stdout=log,
            stderr=STDOUT,
            start_new_session=True,
        )
    try:
        assert supervisor.stdin is not None
        with supervisor.stdin:
            supervisor.stdin.write(json.dumps(options.document()).encode())
        record = _once_up(directory, supervisor)
    except BaseException:
        supervisor.terminate()
        supervisor.wait()
        raise
    if record is None:
        return _tell_of_failure(directory, supervisor.returncode)
    # If nobody listens, it stays up
    if as_json:
        print_json(_document(directory, record, secure=options.secure))
    else:
        if introduction:
            print_line(terminal(), introduction)
        _say_up(directory, record, secure=options.secure)
    return 0


def _once_up(directory: RunDirectory, supervisor: Popen[bytes]) -> dict[str, Any] | None:
    """What the supervisor says of its mesh; None if it has ended."""
    while supervisor.poll() is None:
        record = directory.read()
        if record and record["up"] and record["supervisor"]["pid"] == supervisor.pid:
            return record
        time.sleep(POLL_S)
    return None


def _document(directory: RunDirectory, record: dict[str, Any], *, secure: bool) -> dict[str, Any]:
    client_env = SecureFolder(directory.security).client_env if secure else None
    return {
        "directory": str(directory.path),
        "gateway": record["gateway"],
        "nodes": len(record["nodes"]),
        "logs": str(directory.logs),
        "client_env": None if client_env is None else str(client_env),
    }


def _say_up(directory: RunDirectory, record: dict[str, Any], *, secure: bool) -> None:
    screen = terminal()
    gateways, nodes = record["gateways"], counted(len(record["nodes"]), "node")
    client_env = SecureFolder(directory.security).client_env if secure else None
    catalog = record["settings"]["common"]["catalog"]
    where = ""
    if directory.path != default_directory().absolute():
        where = f" --dir {shlex.quote(str(directory.path))}"
    for line in (
        f"mesh is up: {gateways_text(gateways)}; {nodes}; logs in {directory.logs}",
        try_text(",".join(gateways), client_env, catalog),
        f"esg status{where} shows it, esg down{where} stops it",
    ):
        screen.print(line, soft_wrap=True)


def _tell_of_failure(directory: RunDirectory, code: int) -> int:
    said = directory.log.read_text("utf-8", "replace").rstrip()
    last = said.rpartition("\n")[2]
    if code == REFUSED and last.startswith("error: "):
        raise Rejected(last.removeprefix("error: "))
    print(said, file=sys.stderr)
    return code or 1
