"""Outcomes: the ways in which an admitted request can end."""

from enum import StrEnum


class Outcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DROPPED = "dropped"  # it could not be done in time any more, and its application drops such
