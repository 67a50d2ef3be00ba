"""The examples in README and docs: commands and programs, as they are printed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

COMMAND = re.compile(r"^(?:    )?(?:\.venv/bin/)?((?:esg|loadgen) .*)$")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """README and the pages of docs, without the decision records."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> Iterator[list[str]]:
    """The lines of a page's code blocks that are commands of ours, as their arguments."""
    text = page.read_text("utf-8")
    shell = [body for kind, body in FENCED.findall(text) if kind in ("sh", "bash", "console")]
    indented = [line for line in FENCED.sub("", text).splitlines() if line.startswith("    ")]
    for line in joined([*indented, *"".join(shell).splitlines()]):
        found = COMMAND.match(line)
        if found:
            yield shlex.split(found[1], comments=True)


def joined(lines: list[str]) -> Iterator[str]:
    """Lines of which one that ends with a backslash goes on in the next."""
    return iter("\n".join(lines).replace("\\\n", " ").splitlines())


def programs(page: Path) -> list[str]:
    """The Python programs of a page."""
    return [body for kind, body in FENCED.findall(page.read_text("utf-8")) if kind == "python"]
