"""Exit codes of the commands: docs/exit-codes.md tells them to users."""

from esg.errors import Rejected

NOT_WELL = 1
"""What was asked about is not well, or the world failed: a request, a journal, the disk."""
REFUSED = 2
NOTHING_THERE = 3
INTERRUPTED = 130


class NothingThere(Rejected):
    """A command that has no mesh to talk to."""
