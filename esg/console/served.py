"""How requests fared, written for people: hit rate, latency and cost, everywhere the same."""

from esg.core.metrics import shown_percent

COST_HEADING = "USD\nper 1k"


def rate_text(share: float | None) -> str:
    """
    >>> rate_text(0.75), rate_text(0.99995), rate_text(1), rate_text(None)
    ('75.0%', '99.9%', '100.0%', '-')
    """
    return "-" if share is None else f"{shown_percent(share):.1f}%"


def latency_text(latency_ms: float | None) -> str:
    """
    >>> latency_text(1046.4), latency_text(None)
    ('1046', '-')
    """
    return "-" if latency_ms is None else f"{latency_ms:.0f}"


def cost_text(usd_per_1k: float | None) -> str:
    """For a thousand requests, as `COST_HEADING` says: a single one costs too little to read.

    >>> cost_text(0.21094), cost_text(None)
    ('0.2109', '-')
    """
    return "-" if usd_per_1k is None else f"{usd_per_1k:.4f}"
