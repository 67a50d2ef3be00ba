"""The mesh beside Ray Serve, BentoML and MLServer: three stages that take no time.

    python -m benchmarks.peers [--only NAME] [--rounds N] [--seconds S] [--json | --markdown]

The peers come from PyPI, pinned, on the first run: each into an environment of its own in .peers/.
The stages are built as each one's documentation would build them, and give what they take; ours are
emulated slices. There are closed loops of 1 and 32 clients with 100 B and 1 MB, then an open loop:
the highest rate at which p99 stays below 50 ms. The mesh is as by default, its journal synced. All
takes about a quarter of an hour. A peer that cannot be installed or started is left out, and said
to be.
"""

import argparse
import json
import os
import sys
from statistics import median
from time import strftime
from typing import Any

import uvloop

from benchmarks.peers.servers import OUR_PROMISES, PEERS, running
from benchmarks.peers.session import OURS, OURS_UNARY, Session, measured, our_mesh
from benchmarks.peers.tables import markdown, show
from esg.errors import Fault
from esg.version import __version__

OUR_TITLES = {OURS: f"ESG {__version__}, on a stream", OURS_UNARY: f"ESG {__version__}, unary"}


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


async def run(names: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    sessions: dict[str, Session] = {}
    left_out: dict[str, str] = {}
    async with our_mesh() as ours:
        for peer in (peer for peer in PEERS if peer.name in names):

            def told(words: str, name: str = peer.name) -> None:
                tell(f"{name}: {words}")

            told(f"starting {' '.join(peer.requirements)}")
            try:
                async with running(peer) as server:
                    servers = {peer.name: server, **ours}
                    sessions[peer.name] = await measured(servers, rounds, seconds, told)
            except Fault as fault:
                left_out[peer.name] = str(fault)
                told(f"left out: {fault}")
    return document(sessions, left_out, rounds, seconds)


def document(
    sessions: dict[str, Session], left_out: dict[str, str], rounds: int, seconds: float
) -> dict[str, Any]:
    titles = {peer.name: peer.title for peer in PEERS}
    promises = {peer.name: peer.promises for peer in PEERS}
    rows = []
    for name in (*OUR_TITLES, *sessions):
        found = [s.document()[name] for s in sessions.values() if name in s.rounds]
        if not found:
            continue
        cells = [one["cells"] for one in found]
        kept = promises.get(name, OUR_PROMISES)
        rows.append(
            {
                "name": name,
                "title": OUR_TITLES.get(name) or titles[name],
                "promises": {
                    "durable": kept.durable,
                    "deadline": kept.deadline,
                    "batching": kept.batching,
                },
                "cells": [_together(*same) for same in zip(*cells, strict=True)],
                "open_loop_per_s": median(f["open_loop_per_s"] for f in found),
                "ours_to_it": sessions[name].ratios(OURS, name) if name in sessions else None,
                "ours_unary_to_it": (
                    sessions[name].ratios(OURS_UNARY, name) if name in sessions else None
                ),
            }
        )
    return {
        "date": strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "rounds": rounds,
        "seconds": seconds,
        "rows": rows,
        "left_out": left_out,
    }


def _together(*cells: dict[str, Any]) -> dict[str, Any]:
    """The same cell in the rounds of several peers, for what was beside all of them."""
    figures = ("p50_ms", "per_s", "cpu_ms", "failed")
    return {**cells[0], **{each: median(cell[each] for cell in cells) for each in figures}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [peer.name for peer in PEERS]
    parser.add_argument("--only", choices=names, action="append", help="may be repeated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="per cell and round")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true", help="as it stands in docs/benchmarks.md")
    arguments = parser.parse_args()
    found = uvloop.run(run(arguments.only or names, arguments.rounds, arguments.seconds))
    if arguments.json:
        print(json.dumps(found, indent=2))
    elif arguments.markdown:
        print(markdown(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
