"""The `loadgen` command as typer has it."""

from esg.console.lazy import LazyCommand

app = LazyCommand(
    "loadgen", "esg.loadgen.command:loadgen", "Send requests to a mesh.", "loadgen", program=True
)
