"""Formats of numbers and names for people: times, costs, shares, hit rates, lists."""

from collections.abc import Iterable

from esg.core.metrics import shown_percent
from esg.units import to_ms, to_usd

COST_HEADING = "USD\nper 1k"


def ms_text(time_us: int) -> str:
    """A time in milliseconds.

    >>> ms_text(1_234_567)
    '1234.6'
    """
    return f"{to_ms(time_us):.1f}"


def exact_ms_text(time_us: int) -> str:
    """A time in milliseconds that will be typed in again, with all its digits.

    >>> exact_ms_text(240_317), exact_ms_text(526_000)
    ('240.317', '526')
    """
    return f"{to_ms(time_us):.3f}".rstrip("0").rstrip(".")


def percent_text(part: float, whole: float) -> str:
    """A share in percent.

    >>> percent_text(5, 200), percent_text(0.01, 100), percent_text(1, 0)
    ('2.5%', '<0.1%', '-')
    """
    if whole == 0:
        return "-"
    share = part / whole
    return "<0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, in the singular or plural.

    >>> counted(1, "job"), counted(3, "job")
    ('1 job', '3 jobs')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def joined(names: Iterable[str]) -> str:
    """A list of names, as in a sentence.

    >>> joined(["a"]), joined(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def at_hyphens(name: str, width: int) -> str:
    """A long name on several lines, for the head of a narrow column.

    >>> at_hyphens("super-resolution", 12)
    'super-\\nresolution'
    """
    lines = [""]
    for part in name.replace("-", "-\n").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def rate_text(share: float | None) -> str:
    """A hit rate in percent; only a perfect one is shown as perfect.

    >>> rate_text(0.75), rate_text(0.99995), rate_text(1), rate_text(None)
    ('75.0%', '99.9%', '100.0%', '-')
    """
    return "-" if share is None else f"{shown_percent(share):.1f}%"


def latency_text(latency_ms: float | None) -> str:
    """A latency in whole milliseconds.

    >>> latency_text(1046.4), latency_text(None)
    ('1046', '-')
    """
    return "-" if latency_ms is None else f"{latency_ms:.0f}"


def cost_text(usd_per_1k: float | None, decimals: int = 4) -> str:
    """The cost of a thousand requests (see `COST_HEADING`): a single one costs too little to read.
    Small costs keep three significant digits.

    >>> cost_text(0.21094), cost_text(1.087), cost_text(0.00000215), cost_text(0), cost_text(None)
    ('0.2109', '1.0870', '0.00000215', '0.0000', '-')
    """
    if usd_per_1k is None:
        return "-"
    while 0 < abs(usd_per_1k) * 10**decimals < 99.5 and decimals < 9:
        decimals += 1
    return f"{usd_per_1k:.{decimals}f}"


def job_cost_text(cost_pusd: int) -> str:
    """The cost of a thousand jobs or tasks, given that of one; plans often differ by less than 1 %.

    >>> job_cost_text(77_581_234), job_cost_text(77_638_000)
    ('0.07758', '0.07764')
    """
    return cost_text(to_usd(1000 * cost_pusd), decimals=5)
