"""How requests fared, written for people: hit rate, latency and cost, everywhere the same."""

from __future__ import annotations

COST_HEADING = "USD\nper 1k"


def rate_text(part: float, whole: float) -> str:
    """A share of the whole. Only a perfect one is shown as perfect.

    >>> rate_text(3, 4), rate_text(9_999, 10_000), rate_text(4, 4), rate_text(0, 0)
    ('75.0%', '99.9%', '100.0%', '-')
    """
    if not whole:
        return "-"
    return f"{1 if part == whole else min(part / whole, 0.999):.1%}"


def latency_text(latency_ms: float | None) -> str:
    """
    >>> latency_text(1046.4), latency_text(None)
    ('1046', '-')
    """
    return "-" if latency_ms is None else f"{latency_ms:.0f}"


def cost_text(cost_usd: float, requests: int) -> str:
    """For a thousand requests, as `COST_HEADING` says: a single one costs too little to read.

    >>> cost_text(0.0772, 366), cost_text(0, 0)
    ('0.2109', '-')
    """
    return f"{1000 * cost_usd / requests:.4f}" if requests else "-"
