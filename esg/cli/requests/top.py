"""`esg top`: a live mesh, as it goes."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

import typer
from rich.live import Live

from esg.cli.requests.connection import run_live
from esg.cli.requests.top_view import Look, view
from esg.client import AsyncClient
from esg.console.options import Gateway, above_zero
from esg.console.terminal import print_json, terminal
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY

LONGEST_S = 3600


def top(
    gateway: Gateway = DEFAULT_GATEWAY,
    interval: Annotated[
        float,
        typer.Option(metavar="S", callback=above_zero(LONGEST_S), help="Seconds between updates."),
    ] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Show one view, with rates over one interval, then exit.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON: one line per update, or one document with --once."
        ),
    ] = False,
) -> None:
    """Watch a live mesh: its applications, their queues, nodes and slices.

    Counts are since the controller started, requests per second since the last update, and
    percentiles are over the latest requests. The figures are explained below the view. Ctrl-C
    ends it. In a pipe, one view follows another.

    \b
    Examples:
      esg top
      esg top --once --gateway 10.0.0.1:50051
      esg top --json | jq -c '[.uptime_ms, .requests_per_s, .under_way]'
    """
    looks = _looks(gateway, interval, once=once)
    with suppress(KeyboardInterrupt):  # the usual end of a live view
        run_live(_print(looks, once=once) if as_json else _show(looks, gateway, once=once))


async def _looks(gateway: str, interval_s: float, *, once: bool) -> AsyncIterator[Look]:
    """What is to be shown: all looks, or the first one that has rates."""
    async with AsyncClient(gateway) as mesh:
        before = None
        async for status in mesh.watch_mesh(round(interval_s * 1000) or 1):
            look = Look(status, before)
            before = status
            if not once:
                yield look
            elif look.requests_per_s is not None:
                yield look
                return


async def _print(looks: AsyncIterator[Look], *, once: bool) -> None:
    async for look in looks:
        if once:
            print_json(look.document())
        else:
            print(json.dumps(look.document(), allow_nan=False), flush=True)


async def _show(looks: AsyncIterator[Look], gateway: str, *, once: bool) -> None:
    screen = terminal()
    if once or not screen.is_terminal:
        async for look in looks:
            screen.print(view(look, gateway, screen))
            if not once:
                screen.print()
        return
    first = await anext(looks)  # what goes wrong at once is said on the usual screen
    with Live(
        view(first, gateway, screen), console=screen, screen=True, auto_refresh=False
    ) as live:
        async for look in looks:
            live.update(view(look, gateway, screen), refresh=True)
