"""Ctrl-C while modules are imported, which takes half a second: the process ends at once, quietly.

As an exception, Ctrl-C would end in a traceback out of whichever module is being imported, or be
taken for something else by a compiled one. There is nothing to clean up yet. Nothing here may
import what takes time: not even `signal`, whose names are enumerations.
"""

import _signal  # type: ignore[import-not-found,unused-ignore]
import os

from esg.console.exit_codes import INTERRUPTED


class ended_at_once:  # noqa: N801 - read as what happens in a block
    """Ctrl-C in this block ends the process; where it is ignored or handled, it stays so."""

    def __enter__(self) -> None:
        self._ours = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
        if self._ours:
            try:
                _signal.signal(_signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
            except ValueError:
                self._ours = False  # signals are for the main thread to handle

    def __exit__(self, *_: object) -> None:
        if self._ours:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
