"""What rounds say: medians, and ratios within the same round with the least and the most of them.

Ratios of medians from different minutes would compare the minutes.
"""

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from benchmarks.closed_loop import Round
from benchmarks.overhead.rounds import BEFORE, CALLS, LARGE_CALLS, OURS, Rounds
from esg.core.metrics import percentiles

Figure = Callable[[Round], float]


def p50_ms(one: Round) -> float:
    return one.p50_ms


def per_s(one: Round) -> float:
    return one.per_s


def cpu_ms(one: Round) -> float:
    """Of all processes but the client; of direct calls, the client is one of the two ends."""
    return sum(one.cpu_ms(kind) for kind in _counted(one))


def switches(one: Round) -> float:
    """Of the same processes."""
    return sum(one.switches(kind) for kind in _counted(one))


def _counted(one: Round) -> list[str]:
    is_mesh = "gateway" in one.used
    return [kind for kind in one.used if kind != "client" or not is_mesh]


def ratio(figure: Figure, rounds: Iterable[Round], to: Iterable[Round]) -> dict[str, float]:
    """Of each round to its reference of the same round."""
    found = [figure(one) / figure(other) for one, other in zip(rounds, to, strict=True)]
    return {"median": median(found), "least": min(found), "most": max(found)}


def document(rounds: Rounds, seconds: float) -> dict[str, Any]:
    return {
        "rounds": len(rounds["", CALLS]),
        "seconds": seconds,
        "rows": [_row(mesh, what, rounds) for mesh, what in rounds],
        "to_before": [
            {"what": what, **_ratios(own, rounds[BEFORE, what])}
            for (mesh, what), own in rounds.items()
            if mesh == OURS and (BEFORE, what) in rounds
        ],
        "aims": aims(rounds),
    }


def _row(mesh: str, what: str, rounds: Rounds) -> dict[str, Any]:
    own = rounds[mesh, what]
    p50, p99 = (1000 * one for one in percentiles([s for r in own for s in r.took_s], 50, 99))
    calls = rounds["", LARGE_CALLS if "1 MB" in what else CALLS]
    kinds = own[0].used
    return {
        "mesh": mesh,
        "what": what,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "per_s": median(map(per_s, own)),
        "cpu_ms": {kind: median(one.cpu_ms(kind) for one in own) for kind in kinds},
        "switches": {kind: median(one.switches(kind) for one in own) for kind in kinds},
        "cpu_ms_sum": median(map(cpu_ms, own)),
        "switches_sum": median(map(switches, own)),
        "to_calls": _ratios(own, calls),
    }


def _ratios(rounds: list[Round], to: list[Round]) -> dict[str, dict[str, float]]:
    figures: tuple[Figure, ...] = (p50_ms, per_s, cpu_ms, switches)
    return {figure.__name__: ratio(figure, rounds, to) for figure in figures}


def aims(rounds: Rounds) -> list[dict[str, Any]]:
    """What the mesh is to reach on two cores, beside what it does."""
    calls, large_calls = rounds["", CALLS], rounds["", LARGE_CALLS]
    own = {what: found for (mesh, what), found in rounds.items() if mesh == OURS}
    crowd = own["32 clients"]
    cost = [cpu_ms(one) for one in crowd]
    return [
        _at_most(3.0, "alone: p50, x the calls'", ratio(p50_ms, own["alone"], calls)),
        _at_most(2.7, "alone: CPU, x the calls'", ratio(cpu_ms, own["alone"], calls)),
        _at_least(2.5, "32 clients: rate, x the calls'", ratio(per_s, crowd, calls)),
        _at_most(
            1.5,
            "32 clients: CPU, ms per request",
            {"median": median(cost), "least": min(cost), "most": max(cost)},
        ),
        _at_least(
            0.7,
            "32 clients, unary: rate, x on a stream",
            ratio(per_s, own["32 clients, unary"], crowd),
        ),
        _at_most(
            1.0, "1 MB alone: p50, x the calls'", ratio(p50_ms, own["1 MB alone"], large_calls)
        ),
    ]


def _at_most(limit: float, what: str, found: dict[str, float]) -> dict[str, Any]:
    reached = found["median"] <= limit
    return {"what": what, "found": found, "aim": f"<= {limit:g}", "reached": reached}


def _at_least(limit: float, what: str, found: dict[str, float]) -> dict[str, Any]:
    reached = found["median"] >= limit
    return {"what": what, "found": found, "aim": f">= {limit:g}", "reached": reached}
