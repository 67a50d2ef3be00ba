"""Progress on stderr: a bar on a terminal; elsewhere (a file, CI, `nohup`) a line every now and
then. A command that takes but seconds prints no line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

STEPS = 1000
"""A bar that moves more often than this costs time and shows nothing more."""

FIRST_LINE_S = 10.0
"""How long work goes on without a line. Later lines come as far apart, or a tenth of the time that
has passed: a log of hours has some tens of them."""

Advance = Callable[[float], None]


def on_terminal() -> bool:
    """Whether somebody looks at stderr."""
    return sys.stderr is not None and sys.stderr.isatty()


class ProgressLines:
    """Rate-limited lines of progress on stderr."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self._next_s = FIRST_LINE_S

    def tell(self, line: Callable[[float], str]) -> None:
        """Print a line if it is time for one; it is made of the seconds that have passed."""
        passed_s = self._clock() - self._began_s
        if passed_s < self._next_s or sys.stderr is None:
            return
        self._next_s = passed_s + max(FIRST_LINE_S, passed_s / 10)
        print(line(passed_s), file=sys.stderr, flush=True)


def share_text(text: str, share: float, passed_s: float) -> str:
    """
    >>> share_text("20 runs", 0.25, 30)
    '20 runs: 25% after 30 s, about 90 s left'
    >>> share_text("20 runs", 0.0, 30)
    '20 runs: 0% after 30 s'
    """
    left = f", about {passed_s / share - passed_s:.0f} s left" if share else ""
    return f"{text}: {share:.0%} after {passed_s:.0f} s{left}"


@contextmanager
def progress_bar(text: str, total: float, *, shown: bool) -> Iterator[Advance]:
    """Progress of some work: gives a function that is told how much of the total is done by now. A
    bar is for terminals, and only if it is to be `shown`: not beside JSON."""
    if not on_terminal():
        lines = ProgressLines()
        yield lambda done: lines.tell(lambda passed_s: share_text(text, done / total, passed_s))
        return
    if not shown:
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
