"""Ctrl-C while modules are imported, which takes half a second: the process ends at once, quietly.

As an exception, Ctrl-C would end in a traceback out of whichever module is being imported, or be
taken for something else by a compiled one. There is nothing to clean up yet. Nothing here may
import what takes time.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

from esg.console.exit_codes import INTERRUPTED


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Ctrl-C in this block ends the process; where it is ignored or handled, it stays so."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or current_thread() is not main_thread():
        yield  # signals are for the main thread to handle
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
