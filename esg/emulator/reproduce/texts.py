"""How the report's numbers are written."""

from esg.core.metrics import shown_percent
from esg.emulator.reproduce.experiments import Results
from esg.emulator.sweep import Estimate


def signed(value: float, decimals: int = 1) -> str:
    """
    >>> signed(2.34), signed(-2.34, 0), signed(-0.01)
    ('+2.3', '-2', '0.0')
    """
    text = f"{value:+.{decimals}f}"
    return text if float(text) else text[1:]


def span(low: float, high: float, decimals: int = 1) -> str:
    """
    >>> span(95.31, 97), span(95.31, 95.34)
    ('95.3 to 97.0', '95.3')
    """
    first, last = f"{low:,.{decimals}f}", f"{high:,.{decimals}f}"
    return first if first == last else f"{first} to {last}"


def rate(share: float) -> str:
    """A share in percent; only a perfect one is 100.0."""
    return f"{shown_percent(share):.1f}"


def percent(found: Estimate, whole: float = 1) -> Estimate:
    return Estimate(100 * found.mean / whole, 100 * found.margin / whole)


def points(results: Results, label: str, base: str, key: str = "slo_hit_rate") -> Estimate:
    """By how many percentage points a run's share is higher than another's."""
    return percent(results.difference(label, base, key))


def with_margin(results: Results, text: str, margin: float, decimals: int = 1) -> str:
    """A number with how far it may be off; a single seed cannot tell."""
    return f"{text} ± {margin:.{decimals}f}" if results.size.seeds > 1 else text


def number(results: Results, found: Estimate, decimals: int = 1) -> str:
    return with_margin(results, f"{found.mean:.{decimals}f}", found.margin, decimals)


def change(results: Results, found: Estimate, decimals: int = 1) -> str:
    return with_margin(results, signed(found.mean, decimals), found.margin, decimals)


def rate_of(results: Results, label: str, key: str = "slo_hit_rate") -> str:
    """A run's share, such as its hit rate, in percent."""
    found = results.estimate(label, key)
    return with_margin(results, rate(found.mean), 100 * found.margin)
