"""Memory that goes back to the system when a flood is over.

glibc's malloc keeps what was freed, for the next time: a gateway that once held 300 MB of payloads
would keep them for good. To have large blocks mapped and unmapped one by one (`mallopt`) costs a
page fault for every 4 kB of every payload, half as much again as the payload itself takes. So they
come from the heap, and a process that has grown looks now and then whether it can shrink.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from esg.backoff import Backoff

LOOK_S = Backoff(5.0, 60.0)
"""How long between two attempts; longer after those that were in vain."""
GROWN = 1.2
SPARE_BYTES = 16 * 2**20
"""What a process may have grown by since it began before it is worth an attempt."""
WORTHWHILE = 0.9

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


async def return_memory(
    trim: Callable[[], object] | None = None, resident: Callable[[], int] | None = None
) -> None:
    """Trim the heap now and then while this process is larger than it was when this began."""
    trim, resident = trim or _malloc_trim(), resident or _resident_bytes
    if trim is None:
        return
    enough, in_vain = GROWN * resident() + SPARE_BYTES, 0
    while True:
        await asyncio.sleep(LOOK_S.pause(in_vain))
        before = resident()
        if before <= enough:
            in_vain = 0
            continue
        await asyncio.to_thread(trim)  # some milliseconds, without Python's lock
        in_vain = 0 if resident() < WORTHWHILE * before else in_vain + 1


def _malloc_trim() -> Callable[[], object] | None:
    """glibc's `malloc_trim`, where that is the C library."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    return lambda: found(0)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_BYTES
