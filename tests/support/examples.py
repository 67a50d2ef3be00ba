"""The examples in README and docs: commands and programs, as they are printed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

from tests.support.paths import ROOT

COMMAND = re.compile(r"^(?:\.venv/bin/)?((?:esg|loadgen) .*)$")
SHELL = re.compile(r"^(?:(?:(?:\.venv/bin/)?(?:esg|loadgen)|export|source) |\. \./)")
BLOCK = re.compile(
    r"^```(?P<kind>\w*)\n(?P<fenced>.*?)^```$|(?P<indented>(?:^ {4}[^\n]*\n(?:\n(?= {4}))?)+)",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"`(\S+)`(?:, say)?:\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """README and the pages of docs, without the decision records."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shell_lines(page: Path) -> Iterator[str]:
    """The lines of a page's code blocks that a shell is to read, in their order; one that ends with
    a backslash goes on in the next."""
    for block in BLOCK.finditer(page.read_text("utf-8")):
        if block["indented"] is not None:
            lines = dedent(block["indented"])
        elif block["kind"] in ("sh", "bash", "console"):
            lines = block["fenced"]
        else:
            continue
        yield from lines.replace("\\\n", " ").splitlines()


def commands(page: Path) -> Iterator[list[str]]:
    """The commands of ours on a page, as their arguments, wherever their output goes."""
    for line in shell_lines(page):
        found = COMMAND.match(line)
        if found:
            yield shlex.split(found[1].split(" > ")[0], comments=True)


def script(page: Path) -> list[str]:
    """All that a reader of a page types, but for the tools of others."""
    return [line for line in shell_lines(page) if SHELL.match(line)]


def programs(page: Path) -> list[str]:
    """The Python programs of a page."""
    blocks = BLOCK.finditer(page.read_text("utf-8"))
    return [block["fenced"] for block in blocks if block["kind"] == "python"]


def write_files(page: Path, folder: Path) -> list[Path]:
    """Write the files that a page tells its readers to write: blocks behind their names."""
    written = []
    for name, content in FILE.findall(page.read_text("utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
        written.append(path)
    return written
