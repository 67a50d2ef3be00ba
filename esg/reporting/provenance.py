"""What tells one report from another: when it was made, by which command and version."""

import shlex
import sys
from dataclasses import dataclass
from datetime import datetime

from esg.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """When a run ended, and the command that repeats it."""

    command: str
    ended: datetime

    @staticmethod
    def of_now(program: str) -> "Provenance":
        """That of this process: its command line, and the present time."""
        command = shlex.join([program, *sys.argv[1:]])
        return Provenance(command=command, ended=datetime.now().astimezone())

    def document(self) -> dict[str, str]:
        return {
            "ended": self.ended.isoformat(" ", "seconds"),
            "command": self.command,
            "version": __version__,
        }

    def facts(self) -> dict[str, str]:
        """The same for people, by the headings of a table."""
        return {name.capitalize(): value for name, value in self.document().items()}
