"""Processes that end with the one that started them, however that ends.

A supervisor that is killed outright cannot stop its children; the kernel can. A tied command first
asks for that (PR_SET_PDEATHSIG survives `exec`), then becomes what it was meant to be. It is a
small program of its own, because code that runs between fork and exec in a process with threads
may find a lock that nobody will ever release.

The kernel looks at the thread that started the child: it must be one that lives as long as the
process, such as the one that runs the event loop.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

ORPHANED = 125
_PR_SET_PDEATHSIG = 1


def tied(command: Sequence[str]) -> list[str]:
    """The command that runs this one until this very process ends, if not before."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def tie_to(parent: int) -> None:
    """Have the kernel end this process when its parent does; now, if that has ended already."""
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL)) != 0:
        sys.exit("error: this system does not let a process end with its parent; ESG needs Linux")
    if os.getppid() != parent:  # it ended before the kernel knew of the tie
        os._exit(ORPHANED)


def _become(parent: int, command: list[str]) -> None:
    tie_to(parent)
    if os.getpgrp() != os.getpid():
        os.setpgrp()  # so that it can be ended with all it started
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"error: cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
