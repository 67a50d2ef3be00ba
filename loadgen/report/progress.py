"""The progress of a run, on stderr: a live view on a terminal, elsewhere a line now and then."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from esg.console.formatting import latency_text, rate_text
from esg.console.progress import ProgressLines, on_terminal
from esg.loadgen.report.summary import outcome_table
from esg.loadgen.run import LoadFindings
from esg.workload.plan import Workload

REFRESH_S = 0.5
RATE_OVER = 4
"""Refreshes that the rate shown is taken over."""


@contextmanager
def live_view(plan: Workload, *, shown: bool) -> Iterator[Callable[[LoadFindings], None]]:
    """A live view of a run: gives a function that is told how things are, as often as one likes."""
    view = ProgressView(plan)
    if not on_terminal():
        lines = ProgressLines()
        yield lambda found: lines.tell(lambda _: view.line(found))
        return
    if not shown:
        yield lambda _: None
        return

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        next_at = 0.0

        def look(found: LoadFindings) -> None:
            nonlocal next_at
            if monotonic() >= next_at:
                live.update(view.drawn(found), refresh=True)
                next_at = monotonic() + REFRESH_S

        yield look


class ProgressView:
    """Draws what has been found by now; remembers a little, for the rate."""

    def __init__(self, plan: Workload) -> None:
        self._plan = plan
        self._sent: deque[tuple[float, int]] = deque(maxlen=RATE_OVER)

    def drawn(self, found: LoadFindings) -> Group:
        self._sent.append((found.elapsed_s, found.sent))
        (then_s, before), (now_s, sent) = self._sent[0], self._sent[-1]
        rate = (sent - before) / (now_s - then_s) if now_s > then_s else 0.0
        total = found.outcome.total
        latency_ms = total.percentiles_ms()
        (late_ms,) = found.outcome.late.percentiles_ms(99)
        lines = [
            Text(f"{self._plan.text()}: {self._progress(found)}", "bold"),
            Text(
                f"{rate:.1f}/s, {found.in_flight} in flight, {found.sent} sent, "
                f"{rate_text(total.served.hit_rate)} in time, "
                f"p50 {latency_text(latency_ms['p50'])} ms, "
                f"p99 {latency_text(latency_ms['p99'])} ms; sender late p99 {late_ms:.1f} ms"
            ),
        ]
        if found.interrupted:
            waiting = "waiting for what is in flight; Ctrl-C again: do not wait"
            lines.append(Text(waiting, "yellow"))
        return Group(*lines, Text(), outcome_table(found.outcome))

    def line(self, found: LoadFindings) -> str:
        """How things are, in a line of a log."""
        in_time = rate_text(found.outcome.total.served.hit_rate)
        counts = f"{found.sent} sent, {found.in_flight} in flight, {in_time} in time"
        return f"{self._plan.text()}: {self._progress(found)}; {counts}"

    def _progress(self, found: LoadFindings) -> str:
        if found.sending or found.interrupted:
            length = f" of {self._plan.duration_s:g}" if self._plan.duration_s else ""
            return f"{found.elapsed_s:.0f}{length} s"
        waited_s = found.elapsed_s - found.sending_s
        return f"sent in {found.sending_s:.0f} s; waiting for answers for {waited_s:.0f} s"
