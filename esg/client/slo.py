"""Deadlines: milliseconds for people, whole microseconds on the wire."""

from esg.limits import LONGEST_SLO_MS
from esg.runtime.rpc.status import InvalidRequest
from esg.units import DAY_MS, US_PER_MS, ms

CENTURY_MS = 36_525 * DAY_MS
"""For an application the mesh has a limit of its own; far longer ones do not fit into 64 bits."""


def slo_us_of(slo_ms: float | None, longest_ms: int = LONGEST_SLO_MS) -> int | None:
    """
    >>> slo_us_of(0.5), slo_us_of(None)
    (500, None)
    """
    if slo_ms is None:
        return None
    if not 1 / US_PER_MS <= slo_ms <= longest_ms:
        raise InvalidRequest(
            f"slo_ms: is {slo_ms!s:.20}; it must be from {1 / US_PER_MS} to {longest_ms}"
        )
    return ms(slo_ms)
