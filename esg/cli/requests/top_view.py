"""One look at a live mesh: as a document, and as a screen of at most 80 columns.

An application's row has its figures; the rows below it are its queues, one per stage. A node shows
its vCPUs in use and a block per slice.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from esg.client import MeshStatus
from esg.client.status import ApplicationStatus, NodeStatus, QueueStatus, SliceStatus
from esg.console.formatting import COST_HEADING, cost_text, latency_text, rate_text
from esg.console.terminal import fits, open_table
from esg.core.catalog.unplanned import Unplanned
from esg.core.metrics import CAPTION, Served, slice_use
from esg.names import plain_name
from esg.runtime.unplanned_words import unplanned_words
from esg.units import to_pusd

BLOCKS = {
    "busy": ("█", "green"),
    "loading": ("▒", "yellow"),
    "warm": ("░", "cyan"),
    "empty": ("·", "dim"),
    "lost": ("×", "bold red"),
}
"""What a slice does, from most to least, and how it is drawn."""


class Look:
    """The mesh at one moment, and what changed since the look before."""

    def __init__(self, status: MeshStatus, before: MeshStatus | None) -> None:
        self.status = status
        self._elapsed_s = (status.uptime_ms - before.uptime_ms) / 1000 if before else 0.0
        known = before.applications if before else ()
        self._arrived = {told.application: told.arrived for told in known}

    @property
    def requests_per_s(self) -> float | None:
        """None if there is nothing to compare with: the first look, or another controller."""
        rates = [self.rate_of(told) for told in self.status.applications]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if self._elapsed_s > 0 else None

    def rate_of(self, told: ApplicationStatus) -> float | None:
        if self._elapsed_s <= 0:
            return None
        return (told.arrived - self._arrived.get(told.application, 0)) / self._elapsed_s

    def document(self) -> dict[str, Any]:
        applications = [
            {
                **asdict(told),
                "requests_per_s": self.rate_of(told),
                **served_of(told).document(),
            }
            for told in self.status.applications
        ]
        return {
            **asdict(self.status),
            "nodes": [asdict(node) for node in in_order(self.status.nodes)],
            "requests_per_s": self.requests_per_s,
            "applications": applications,
        }


def served_of(told: ApplicationStatus) -> Served:
    """The counts of an application, for the figures that follow from them."""
    return Served(
        done=told.done,
        in_time=told.in_time,
        failed=told.failed,
        dropped=told.dropped,
        cancelled=told.cancelled,
        overloaded=told.overloaded,
        invalid=told.refused - told.overloaded,
        cost_pusd=to_pusd(told.cost_usd),
    )


def view(look: Look, gateway: str, screen: Console) -> RenderableType:
    """Everything; or, on a terminal that is too low for it, no caption; the queues with jobs; or no
    queues."""
    for least_jobs, caption in ((0, CAPTION), (0, ""), (1, ""), (math.inf, "")):
        whole = _view(look, gateway, screen, least_jobs, caption)
        if not screen.is_terminal or len(screen.render_lines(whole)) <= screen.height:
            break
    return whole


def _view(
    look: Look, gateway: str, screen: Console, least_jobs: float, caption: str
) -> RenderableType:
    status = look.status
    applications = _applications_table(look, least_jobs)
    if not fits(applications, screen):
        applications.padding = 0
    nodes = in_order(status.nodes)
    width = max((len(node.node) for node in nodes), default=0)
    return Group(
        _head(look, gateway),
        *((Text(f"no new requests: {status.refusing}", "bold red"),) if status.refusing else ()),
        "",
        applications,
        *(_unserved(told) for told in status.applications if served_of(told).ended > told.done),
        "",
        Columns([_node(node, width) for node in nodes], padding=(0, 4), equal=True)
        if nodes
        else Text("no nodes: requests wait until one joins", "bold red"),
        "",
        _foot(status),
        *_kinds(status),
        *((Text(f"\n{caption}", "dim"),) if caption else ()),
    )


def _head(look: Look, gateway: str) -> Text:
    status, rate = look.status, look.requests_per_s
    return Text.assemble(
        (gateway, "bold"),
        f"  policy {status.policy}  up {_uptime(status.uptime_ms)}  ",
        ("-" if rate is None else f"{rate:.1f}", "bold"),
        " requests/s  ",
        (str(status.under_way), "bold"),
        " under way",
    )


def _applications_table(look: Look, least_jobs: float) -> Table:
    table = open_table()
    table.add_column("application\n  stage", overflow="fold")
    for heading in (
        "\nwaits",
        "\nruns",
        "oldest\nms",
        "req\n/s",
        "hit\nrate",
        "p50\nms",
        "p99\nms",
        COST_HEADING,
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    told = {application.application: application for application in look.status.applications}
    for name, queues in _by_application(look.status).items():
        table.add_row(
            Text(name, "bold"),
            *_queue_cells(
                sum(queue.waiting for queue in queues),
                sum(queue.running for queue in queues),
                max((queue.oldest_ms for queue in queues), default=0),
            ),
            *(_figures(look, told[name]) if name in told else ()),
        )
        for queue in queues:
            jobs = queue.waiting + queue.running
            if jobs >= least_jobs:
                cells = _queue_cells(queue.waiting, queue.running, queue.oldest_ms)
                table.add_row(f"  {queue.stage}", *cells, style="" if jobs else "dim")
    return table


def _by_application(status: MeshStatus) -> dict[str, list[QueueStatus]]:
    """Every application that has queues or figures, by its plain name, whichever version."""
    found: dict[str, list[QueueStatus]] = {}
    for queue in status.queues:
        found.setdefault(plain_name(queue.application), []).append(queue)
    for told in status.applications:
        found.setdefault(told.application, [])
    return found


def _queue_cells(waiting: int, running: int, oldest_ms: float) -> tuple[str, str, str]:
    return str(waiting or "·"), str(running or "·"), f"{oldest_ms:.0f}" if waiting else "·"


def _figures(look: Look, told: ApplicationStatus) -> tuple[str, ...]:
    rate, served = look.rate_of(told), served_of(told)
    p50_ms, p99_ms = (told.latency_ms_p50, told.latency_ms_p99) if told.done else (None, None)
    return (
        "-" if rate is None else f"{rate:.1f}",
        rate_text(served.hit_rate),
        latency_text(p50_ms),
        latency_text(p99_ms),
        cost_text(served.cost_usd_per_1k),
    )


def _unserved(told: ApplicationStatus) -> Text:
    counts = {
        "failed": told.failed,
        "dropped": told.dropped,
        "cancelled": told.cancelled,
        "refused": told.refused,
    }
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    overload = f" ({told.overloaded} for overload)" if told.overloaded else ""
    return Text(f"{told.application}: {words}{overload}", "red")


def _node(node: NodeStatus, width: int) -> Text:
    blocks = (BLOCKS[_doing(part)] for part in node.slices)
    vcpus = f"{node.vcpus - node.vcpus_free:>2}/{node.vcpus} vCPUs"
    return Text.assemble((f"{node.node:{width}}", "bold"), "  ", *blocks, "  ", vcpus)


def _doing(part: SliceStatus) -> str:
    use = slice_use(part.task, usable=not part.lost)
    if use != "free":
        return use
    if part.loading:
        return "loading"
    return "warm" if part.resident else "empty"


def _foot(status: MeshStatus) -> Text:
    slices = [_doing(part) for node in status.nodes for part in node.slices]
    parts: list[str | tuple[str, str]] = ["slices:"]
    for doing, block in BLOCKS.items():
        if doing == "lost" and doing not in slices:
            continue  # as it should be
        parts += ["  ", block, f" {slices.count(doing)} {doing}"]
    batch = f"{status.jobs / status.tasks:.2f}" if status.tasks else "-"
    parts.append(
        f"\n{status.tasks} tasks, mean batch {batch}  {status.cold_starts} cold starts  "
        f"transfers: {status.local_transfers} local, {status.remote_transfers} remote"
    )
    return Text.assemble(*parts)


def _kinds(status: MeshStatus) -> list[Text]:
    """Which kinds of slices there are, if they have names, and what is not planned on them."""
    told = [f"{kind.slices} x {kind.kind or 'usual'}" for kind in status.kinds]
    named = any(kind.kind for kind in status.kinds)
    lines = [Text(f"kinds of slices: {', '.join(told)}")] if named else []
    for kind in status.kinds:
        found = Unplanned(
            kind=kind.kind,
            unprofiled=kind.unprofiled,
            too_large=kind.too_large,
            nothing=kind.nothing,
        )
        if found:
            lines.append(Text(unplanned_words(found), "red" if found.nothing else "yellow"))
    return lines


def _uptime(uptime_ms: float) -> str:
    """
    >>> _uptime(5_400), _uptime(3_734_000), _uptime(180_000_000)
    ('0:00:05', '1:02:14', '2 d 2:00:00')
    """
    minutes, seconds = divmod(int(uptime_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days} d ' if days else ''}{hours}:{minutes:02}:{seconds:02}"


def in_order(nodes: Iterable[NodeStatus]) -> list[NodeStatus]:
    """As people count."""
    return sorted(nodes, key=lambda node: _natural(node.node))


def _natural(name: str) -> list[tuple[str, int]]:
    """A sort key by which node10 comes after node9.

    >>> sorted(["node10", "node9", "a"], key=_natural)
    ['a', 'node9', 'node10']
    """
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]
