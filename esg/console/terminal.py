"""Printing: one JSON document, or tables and sentences for people.

Everything is plain text in a pipe (80 columns, or what COLUMNS says) and coloured on a terminal.
"""

import json
from textwrap import TextWrapper
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))


def terminal() -> Console:
    """The console that people read. Names out of a catalog are shown as they are, never taken for
    markup."""
    return Console(markup=False, highlight=False, emoji=False)


def print_line(screen: Console, text: str) -> None:
    """Print a sentence that may be long: broken between words on a terminal, and one line in a
    pipe, for whoever looks for something in it. Paths stay whole."""
    if screen.is_terminal:
        wrap = TextWrapper(screen.width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(wrap.fill(line) for line in text.split("\n"))
    screen.print(text, soft_wrap=True)


def open_table() -> Table:
    """A table with a rule below its head and no frame, so that 80 columns hold the most."""
    return Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def fits(table: Table, screen: Console) -> bool:
    """Whether a table can be shown without cutting anything short."""
    unlimited = screen.options.update(width=10_000)
    return Measurement.get(screen, unlimited, table).maximum <= screen.width
