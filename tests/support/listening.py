"""What a process listens on, as the kernel says."""

from contextlib import suppress
from pathlib import Path

LISTENS = "0A"
"""The state of a socket in /proc/net/tcp that waits for connections."""


def tcp_ports(pid: int) -> list[int]:
    """The TCP ports on which a process waits for connections."""
    own = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            own.add(str(descriptor.readlink()))
    ports = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and f"socket:[{fields[9]}]" in own:
                ports.append(int(fields[1].rpartition(":")[2], 16))
    return ports
