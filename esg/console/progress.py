"""A bar on stderr, while somebody looks: not in a pipe, and not beside JSON."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

STEPS = 1000
"""A bar that moves more often than this costs time and shows nothing more."""

Advance = Callable[[float], None]


@contextmanager
def progress_bar(text: str, total: float, *, shown: bool) -> Iterator[Advance]:
    """A progress bar: gives a function that is told how much of the total is done by now."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(text, total=total)
        shown_at = 0.0

        def advance(completed: float) -> None:
            nonlocal shown_at
            if completed - shown_at >= total / STEPS:
                shown_at = completed
                progress.update(bar, completed=completed)

        yield advance
