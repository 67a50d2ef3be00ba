"""Outcomes: the ways in which an admitted request can end."""

from enum import StrEnum


class Outcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INVALID = "invalid"  # a function could do nothing with its input, wherever that is tried
    DROPPED = "dropped"  # it could not be done in time any more, and its application drops such
