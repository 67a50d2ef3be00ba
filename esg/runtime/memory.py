"""The memory of a process that serves: what is looked through for garbage, and what goes back.

Python's collector of cycles looks again and again through all that a process holds, and most of
that is there for good: code, catalog, connections. So what is there once a process serves is
exempted, and the collector comes less often: it took a sixth of the CPU of a busy mesh.

glibc's malloc keeps what was freed, for the next time: a gateway that once held 300 MB of payloads
would keep them for good. To have large blocks mapped and unmapped one by one (`mallopt`) costs a
page fault for every 4 kB of every payload, half as much again as the payload itself takes. So they
come from the heap, and a process that has grown looks now and then whether it can shrink.
"""

import asyncio
import ctypes
import gc
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

SETTLED_S = 2.0
"""How long a process takes, about, to make what it needs for good."""
THRESHOLDS = (10_000, 20, 50)
"""How many new objects, and collections of each generation, bring about the next collection. A
cycle may hold a payload until then: so it is not the hundreds of thousands that would cost
least."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


async def settle_collector(after_s: float = SETTLED_S) -> None:
    """Exempt all that is there by then from garbage collection, and have it come less often."""
    await asyncio.sleep(after_s)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


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
