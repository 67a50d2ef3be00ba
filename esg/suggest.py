"""Helping a person who named something that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST_QUOTE = 100


def did_you_mean(kind: str, given: str, known: Iterable[str]) -> str:
    """A sentence that says what is not known and what was probably meant.

    >>> did_you_mean("application", "image-clasification", ["image-classification", "depth"])
    "unknown application 'image-clasification'; did you mean 'image-classification'?"
    >>> did_you_mean("engine", "dijkstra", ["astar", "frontier"])
    "unknown engine 'dijkstra'; known: astar, frontier"
    """
    names = [shortened(name) for name in known]
    said = shortened(given)
    close = closest(said, names)
    if close is not None:
        return f"unknown {kind} {said!r}; did you mean {close!r}?"
    return f"unknown {kind} {said!r}; known: {', '.join(names) or 'none'}"


def closest(given: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, if one is like the given one.

    >>> closest("astra", ["astar", "frontier"]), closest("dijkstra", ["astar"])
    ('astar', None)
    """
    return next(iter(get_close_matches(given, list(known), n=1)), None)


def shortened(text: str, longest: int = LONGEST_QUOTE) -> str:
    """What somebody wrote, as long as a message may quote it.

    >>> shortened("depth"), len(shortened("x" * 1000))
    ('depth', 103)
    """
    return text if len(text) <= longest else f"{text[:longest]}..."
