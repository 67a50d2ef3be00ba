"""The entry point of the `loadgen` command, which is imported when it is used."""

from esg.console.entry import run_app
from esg.console.lazy import LazyCommand

app = LazyCommand("loadgen", "esg.loadgen.command:loadgen", "Send requests to a mesh.", "loadgen")


def run() -> int:
    return run_app(app, "loadgen")
