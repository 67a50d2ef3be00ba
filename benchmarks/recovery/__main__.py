"""What a death costs: time, work done twice, requests lost; and what it costs to be prepared.

    .venv/bin/python -m benchmarks.recovery [--seconds S] [--requests N] [--json]

A mesh under load has its processes killed, one kind after the other, and its supervisor starts them
again. Then the journal: per request, per entry, and replayed.
"""

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.recovery.journal import per_entry, per_request, replays
from esg.client import AsyncClient, Outcome
from esg.client.stream import RequestStream
from esg.core.messages.commands import Command, StartTask
from esg.core.messages.events import Event, TaskFinished
from esg.core.messages.task_order import TaskOrder
from esg.emulator.history import replay_strictly
from esg.local.procfs import in_session
from esg.local.supervisor import Mesh, MeshOptions
from esg.runtime.catalog import load
from esg.runtime.settings import CommonSettings

APPLICATION = "image-classification"
CLIENTS = 24
NODES = 4
SCALE = 0.1
KINDS = ("nobody", "controller", "node0", "slices of node1", "redis", "gateway")
LIMIT_S = 60.0


class Crowd:
    """Clients with one request each under way, until told to stop."""

    def __init__(self, stream: RequestStream) -> None:
        self._stream = stream
        self._stopping = False
        self.sent = 0
        self.answers: list[tuple[float, float]] = []  # when each began and was answered
        self.lost = 0

    async def run(self) -> None:
        await asyncio.gather(*(self._ask() for _ in range(CLIENTS)))

    def stop(self) -> None:
        self._stopping = True

    async def _ask(self) -> None:
        while not self._stopping:
            self.sent += 1
            began = perf_counter()
            try:
                result = await self._stream.submit(APPLICATION, b"x" * 1000)
            except Exception:
                self.lost += 1
                continue
            self.lost += result.outcome is not Outcome.DONE
            self.answers.append((began, perf_counter()))

    async def answered_since(self, moment: float) -> float:
        """When the first request was answered that began after this moment."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                new = [ended for began, ended in self.answers if began > moment]
                if new:
                    return min(new)
                await asyncio.sleep(0.005)

    def longest_silence_s(self, start: float) -> float:
        times = sorted(ended for _, ended in self.answers if ended >= start)
        return max(b - a for a, b in pairwise([start, *times]))


class Executions:
    """Jobs that were done, as nodes said, also those that nobody waited for any more."""

    def __init__(self) -> None:
        self._orders: dict[str, TaskOrder] = {}
        self.needed: set[tuple[str, str]] = set()
        self.jobs = 0

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, TaskFinished) and event.task in self._orders:
            order = self._orders.pop(event.task)
            self.jobs += len(order.jobs)
            self.needed.update((job.request, order.stage) for job in order.jobs)
        for command in commands:
            if isinstance(command, StartTask):
                self._orders[command.order.task] = command.order


def victims(mesh: Mesh, kind: str) -> list[int]:
    if kind == "nobody":
        return []
    name = kind.removeprefix("slices of ")
    pid = mesh.processes[name]
    if name == kind:
        return [pid]
    return [seen.pid for seen in in_session(pid) if seen.pid != pid]


async def death(kind: str, seconds: float) -> dict[str, Any]:
    options = MeshOptions(
        nodes=NODES,
        scale=SCALE,
        warm_start=True,
        log_level="warning",
        more={"controller": {"kept_segments": 1000}},
    )
    with TemporaryDirectory() as folder:
        async with (
            Mesh(options, Path(folder) / "mesh") as mesh,
            AsyncClient(mesh.gateway, patience_s=LIMIT_S) as client,
            client.stream() as stream,
        ):
            crowd = Crowd(stream)
            running = asyncio.create_task(crowd.run())
            await asyncio.sleep(seconds)
            moment = perf_counter()
            for pid in victims(mesh, kind):
                os.kill(pid, signal.SIGKILL)
            recovered = await crowd.answered_since(moment)
            await asyncio.sleep(seconds)
            crowd.stop()
            await running
            journal = mesh.journal
        assert journal is not None
        done = Executions()
        replay_strictly(journal, load(CommonSettings()), done.observe)
    return {
        "killed": kind,
        "requests": crowd.sent,
        "lost": crowd.lost,
        "jobs_done_twice": done.jobs - len(done.needed),
        "first_answer_s": recovered - moment,
        "longest_silence_s": crowd.longest_silence_s(moment),
    }


async def measure(seconds: float) -> dict[str, list[dict[str, Any]]]:
    return {
        "deaths": [await death(kind, seconds) for kind in KINDS],
        "per_request": await per_request(seconds),
    }


def table(title: str, rows: Iterable[dict[str, Any]], **headings: str) -> Table:
    """Columns by the names of their values, with how to write them."""
    shown = Table(title=title)
    for heading in headings:
        shown.add_column(heading.replace("_", " "), justify="right")
    for row in rows:
        cells = []
        for heading, form in headings.items():
            value = row.get(heading)
            cells.append("" if value is None else format(value, form))
        shown.add_row(*cells)
    return shown


def show(found: dict[str, list[dict[str, Any]]]) -> None:
    screen = Console()
    screen.print(
        table(
            "One process is killed (aims: 0 lost; twice only what died with it)",
            found["deaths"],
            killed="",
            requests="d",
            lost="d",
            jobs_done_twice="d",
            first_answer_s=".2f",
            longest_silence_s=".2f",
        ),
        table(
            "The journal's share: three stages that take no time",
            found["per_request"],
            what="",
            p50_ms=".2f",
            per_s=".0f",
            bytes=".0f",
            events=".1f",
            replay_per_s=".0f",
        ),
        table(
            "One entry, in microseconds",
            found["per_entry"],
            group="d",
            not_synced_us=".1f",
            synced_us=".1f",
        ),
        table(
            "Events per second of CPU, the paper's applications (aim: 100000 replayed)",
            found["replays"],
            policy="",
            entries="d",
            read_per_s=".0f",
            replayed_per_s=".0f",
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=3, help="before and after each death")
    parser.add_argument("--requests", type=int, default=2000, help="in the journals replayed")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    arguments = parser.parse_args()
    found = uvloop.run(measure(arguments.seconds))
    found |= {"per_entry": per_entry(), "replays": replays(arguments.requests)}
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
