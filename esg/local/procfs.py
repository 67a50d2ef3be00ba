"""What /proc tells about processes.

A pid alone is not a name: when its process has ended, the next one may get it. A pid together with
the moment its process began is one.
"""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """A living process. `began` counts the clock's ticks from boot."""

    pid: int
    session: int
    began: int
    cpu_s: float
    memory_bytes: int

    @property
    def age_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.began / TICKS_PER_S


def look(pid: int) -> ProcessInfo | None:
    """A process, unless it has ended."""
    try:
        stat = (PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The program's name stands in parentheses and may hold any character, these included
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    if state in "ZX":
        return None
    return ProcessInfo(
        pid=pid,
        session=int(fields[2]),
        began=int(fields[18]),
        cpu_s=(int(fields[10]) + int(fields[11])) / TICKS_PER_S,
        memory_bytes=int(fields[20]) * PAGE_BYTES,
    )


def alive(pid: int, began: int) -> ProcessInfo | None:
    """That very process, not a later one with its pid."""
    seen = look(pid)
    return seen if seen is not None and seen.began == began else None


def send(pid: int, began: int, number: signal.Signals) -> bool:
    """Signal that very process, never a later one with its pid; whether it was there."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # What is looked at now is what the handle holds: its pid is not given away before it ends
        if alive(pid, began) is None:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        return True
    finally:
        os.close(handle)


def in_session(session: int) -> list[ProcessInfo]:
    """A session's leader and all it has started."""
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return [seen for pid in sorted(pids) if (seen := look(pid)) and seen.session == session]
