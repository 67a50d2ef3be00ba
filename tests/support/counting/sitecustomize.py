"""Calls of Python functions, counted in processes that a test starts.

A process that finds this folder on its PYTHONPATH loads this file by itself. From one SIGUSR1 to
the next SIGUSR2 it counts what its main thread calls, and then writes that down: `PID.json` in the
folder that CALLS_COUNTED_IN names, with a number for each function (`file:name`). A coroutine that
is resumed counts as called again.
"""

import cProfile
import json
import os
import signal
from pathlib import Path
from typing import Any

FOLDER = os.environ.get("CALLS_COUNTED_IN")
profile: cProfile.Profile | None = None


def begin(*_: Any) -> None:
    global profile
    profile = cProfile.Profile(builtins=False)
    profile.enable()


def end(*_: Any) -> None:
    assert profile is not None
    profile.disable()
    counts: dict[str, int] = {}
    for entry in profile.getstats():
        if not isinstance(entry.code, str):
            name = f"{Path(entry.code.co_filename).name}:{entry.code.co_name}"
            counts[name] = counts.get(name, 0) + entry.callcount
    unfinished = Path(FOLDER or ".", f"{os.getpid()}.tmp")
    unfinished.write_text(json.dumps(counts), "ascii")
    unfinished.rename(unfinished.with_suffix(".json"))


if FOLDER is not None:
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
