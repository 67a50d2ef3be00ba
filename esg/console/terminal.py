"""Printing: one JSON document, or tables and sentences for people.

Everything is plain text in a pipe (80 columns, or what COLUMNS says) and coloured on a terminal.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import TextWrapper
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NEW_LINE = "\n"


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


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of every row: its heading, and a text for each."""

    heading: str
    texts: Sequence[str]
    justify: Literal["left", "right"] = "right"


def print_rows(
    screen: Console,
    heading: str,
    rows: Mapping[str, Text | str],
    columns: Sequence[Column],
) -> None:
    """Print a table with a row for each name, shown as the text behind it. The last columns are
    lines below the table if a narrow screen has no room for them: no name is cut."""
    shown = len(columns)
    table = _rows(heading, rows, columns)
    while shown and _least_width(table, screen) > screen.width:
        shown -= 1
        table = _rows(heading, rows, columns[:shown])
    screen.print(table)
    for column in columns[shown:]:
        values = ", ".join(f"{name} {text}" for name, text in zip(rows, column.texts, strict=True))
        screen.print(f"\n{column.heading.replace(NEW_LINE, ' ')}: {values}")


def _rows(heading: str, rows: Mapping[str, Text | str], columns: Sequence[Column]) -> Table:
    table = open_table()
    table.add_column(heading, overflow="fold")
    for column in columns:
        table.add_column(column.heading, justify=column.justify, no_wrap=True)
    for number, text in enumerate(rows.values()):
        table.add_row(text, *(column.texts[number] for column in columns))
    return table


def _least_width(table: Table, screen: Console) -> int:
    """The width below which words would be cut."""
    return Measurement.get(screen, screen.options.update(width=10_000), table).minimum
