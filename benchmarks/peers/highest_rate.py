"""An open loop: the highest rate at which 99 of 100 requests are answered in time.

Requests go out as planned, whether others are answered or not, and a request's time is counted from
its plan.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter

from benchmarks.closed_loop import NotAnswered
from benchmarks.peers.callers import Caller
from esg.core.metrics import percentiles

P99_LIMIT_MS = 50.0
STEP_S, LONGEST_STEP_S = 3.0, 10.0
LEAST_ASKED = 100
"""A p99 of fewer says little: at low rates a step is longer."""
MOST_STEPS = 12
PATIENCE_S = 2.0
MOST_HELD = 1000
"""A server that has more of them waiting is not keeping up, and is spared the rest."""
FACTOR, FINEST = 2.0, 0.1
TRIES = 2
"""A machine that was busy for a moment gets another chance."""
SLOWEST = 10.0
"""What does not even reach this is not looked at more closely."""


async def offered(call: Caller, payload: bytes, per_s: float, seed: int) -> float:
    """The p99, in ms, at a Poisson rate; infinite if one was not answered."""
    gaps = random.Random(seed)
    took_s: list[float] = []
    under_way: set[asyncio.Task[None]] = set()
    failed = False

    async def ask(planned: float) -> None:
        nonlocal failed
        try:
            await call(payload)
            took_s.append(perf_counter() - planned)
        except NotAnswered:
            failed = True

    with suppress(NotAnswered):
        await call(payload)  # what is left of the step before goes first
    step_s = min(max(STEP_S, LEAST_ASKED / per_s), LONGEST_STEP_S)
    began = planned = perf_counter()
    while planned < began + step_s and not failed and len(under_way) < MOST_HELD:
        planned += gaps.expovariate(per_s)
        await asyncio.sleep(max(0.0, planned - perf_counter()))
        task = asyncio.create_task(ask(planned))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    behind = failed or len(under_way) >= MOST_HELD
    late = (await asyncio.wait(under_way, timeout=PATIENCE_S))[1] if under_way else set()
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    if behind or failed or late:
        return float("inf")
    return float(1000 * percentiles(took_s, 99)[0])


async def highest_rate(
    call: Caller, payload: bytes, first: float, tell: Callable[[str], None]
) -> float:
    """Up or down from a first rate until it is too much or little, then halfway between: to 10 %.

    Zero if it is below the slowest that is tried.
    """
    low, high, rate = 0.0, float("inf"), max(first, SLOWEST)
    step = 0
    while rate >= SLOWEST and high - low > FINEST * min(high, rate) and step < MOST_STEPS:
        step += 1
        p99_ms = float("inf")
        for number in range(TRIES):
            if p99_ms > P99_LIMIT_MS:
                p99_ms = await offered(call, payload, rate, seed=number)
        tell(f"{rate:.0f}/s: p99 {p99_ms:.1f} ms")
        if p99_ms <= P99_LIMIT_MS:
            low = rate
        else:
            high = rate
        if high == float("inf"):
            rate = low * FACTOR
        elif low == 0.0:
            rate = high / FACTOR
        else:
            rate = (low + high) / 2
    return low
