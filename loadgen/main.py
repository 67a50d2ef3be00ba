"""The entry point of the `loadgen` command, which is imported when it is used."""

from esg.console.interrupts import ended_at_once


def run() -> int:
    with ended_at_once():
        from esg.console.entry import run_app
        from esg.loadgen.program import app
    return run_app(app, "loadgen")
