"""Load shedding, as an application asks for it: what becomes of its requests that will be late."""

from enum import StrEnum


class LateRequests(StrEnum):
    """Requests that cannot be done in time are finished all the same, or refused and dropped: see
    `esg.core.scheduler.admission`."""

    FINISH = "finish"
    DROP = "drop"
