"""One peer at a time, with the mesh beside it all along: rounds of both in turn, there and back
again.

Peers do not run beside each other, as some are busy even when nobody calls.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.closed_loop import NotAnswered, Round, closed_loop
from benchmarks.live import children, no_op_catalog, started_mesh
from benchmarks.peers.callers import LARGE, SMALL, Server, mesh
from benchmarks.peers.highest_rate import highest_rate
from esg.errors import Fault

OURS, OURS_UNARY = "esg", "esg-unary"
PAYLOADS = {"100 B": b"x" * 100, "1 MB": b"x" * 10**6}
CELLS = [(size, clients) for size in PAYLOADS for clients in (1, 32)]
SLICES = 2
EVERYTHING = "server"
"""A server's processes are not told apart."""


@asynccontextmanager
async def our_mesh() -> AsyncIterator[dict[str, Server]]:
    """Stages that give as much as they take, like those of the peers."""
    outputs_mb = {SMALL: 100 / 10**6, LARGE: 1.0}
    with (
        no_op_catalog(applications=outputs_mb) as catalog,
        started_mesh(catalog, slices=SLICES) as started,
    ):
        async with mesh(started.gateway) as (streamed, unary):
            pids = [pid for own in started.processes.values() for pid in (own, *children(own))]
            yield {OURS: Server(streamed, pids), OURS_UNARY: Server(unary, pids)}


@dataclass(slots=True)
class Session:
    """What was measured of each server, in the rounds of one peer."""

    rounds: dict[str, dict[tuple[str, int], list[Round]]] = field(default_factory=dict)
    open_loop_per_s: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            name: {
                "cells": [
                    {
                        "size": size,
                        "clients": clients,
                        "p50_ms": median(one.p50_ms for one in found),
                        "per_s": median(one.per_s for one in found),
                        "cpu_ms": median(_cpu_ms(one) for one in found),
                        "failed": sum(one.failed for one in found)
                        / sum(one.failed + len(one.took_s) for one in found),
                    }
                    for (size, clients), found in cells.items()
                ],
                "open_loop_per_s": self.open_loop_per_s.get(name),
            }
            for name, cells in self.rounds.items()
        }

    def ratios(self, of: str, to: str) -> list[dict[str, float]]:
        """Of the rounds of each cell, each to the other's next to it; medians."""
        return [
            {
                "p50": median(
                    a.p50_ms / b.p50_ms for a, b in zip(ours, self.rounds[to][cell], strict=True)
                ),
                "per_s": median(
                    a.per_s / b.per_s if b.per_s else float("inf")
                    for a, b in zip(ours, self.rounds[to][cell], strict=True)
                ),
            }
            for cell, ours in self.rounds[of].items()
        ]


async def measured(
    servers: dict[str, Server], rounds: int, seconds: float, tell: Callable[[str], None]
) -> Session:
    await _compare(servers)
    found = Session({name: {cell: [] for cell in CELLS} for name in servers})
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        order = list(servers.items())
        for size, clients in CELLS if number % 2 == 0 else reversed(CELLS):
            for name, server in order if number % 2 == 0 else reversed(order):
                one = await _round(server, PAYLOADS[size], clients, seconds)
                found.rounds[name][size, clients].append(one)
    for name, server in servers.items():
        crowd = median(one.per_s for one in found.rounds[name]["100 B", 32])

        def told(words: str, name: str = name) -> None:
            tell(f"open loop of {name}, {words}")

        found.open_loop_per_s[name] = await highest_rate(
            server.call, PAYLOADS["100 B"], crowd / 2, told
        )
    return found


async def _round(server: Server, payload: bytes, clients: int, seconds: float) -> Round:
    async def ask() -> None:
        await server.call(payload)

    pids = {EVERYTHING: server.pids}
    return await closed_loop(ask, clients=clients, seconds=seconds, pids=pids)


def _cpu_ms(one: Round) -> float:
    return one.cpu_ms(EVERYTHING) if one.took_s else float("inf")


async def _compare(servers: dict[str, Server]) -> None:
    """All give as much as they are given."""
    for name, server in servers.items():
        for payload in PAYLOADS.values():
            try:
                given = len(await server.call(payload))
            except NotAnswered as error:
                raise Fault(f"{name} does not answer {len(payload)} B: {error}") from error
            if given != len(payload):
                raise Fault(f"{name} gave {given} B for {len(payload)} B")
