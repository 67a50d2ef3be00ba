"""The largest settings of a run. Larger ones are slips; with far larger ones, numbers do not fit
into 64 bits, or a run never ends."""

LARGEST_SLO_SCALE = 1_000
"""Deadlines a thousand times as long as the work are no deadlines any more."""

LARGEST_TIME_SCALE = 1_000

LOUDEST = 100
"""More noise than this is all noise."""

FASTEST_MB_PER_S = 1_000_000
"""Faster than any network, or memory."""
