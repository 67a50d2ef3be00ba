"""Helping a person who named something that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches


def one_of(kind: str, given: str, known: Iterable[str]) -> str:
    """A sentence that says what is not known and what was probably meant.

    >>> one_of("application", "image-clasification", ["image-classification", "depth"])
    "unknown application 'image-clasification'; did you mean 'image-classification'?"
    >>> one_of("engine", "dijkstra", ["astar", "frontier"])
    "unknown engine 'dijkstra'; known: astar, frontier"
    """
    names = list(known)
    close = get_close_matches(given, names, n=1)
    if close:
        return f"unknown {kind} {given!r}; did you mean {close[0]!r}?"
    return f"unknown {kind} {given!r}; known: {', '.join(names) or 'none'}"
