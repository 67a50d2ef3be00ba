"""Eviction: which models go when a slice is full."""

from collections.abc import Callable, Iterable

Worth = Callable[[str], float]
"""What a function's model is worth keeping."""


def by_age_alone(_: str) -> float:
    return 0.0


def victims_of(
    idle: Iterable[tuple[float, int, str, int]], missing_mb: int
) -> tuple[list[str], int]:
    """Eviction: which idle models go, those of the least worth first, of equals the least recently
    used, until so much more memory is free; and how much is missing when all of them are gone. Each
    is given as its worth, when it was last used, its name and its memory.

    >>> idle = [(0.5, 30, "b", 200), (0.1, 40, "c", 200), (0.5, 20, "a", 200)]
    >>> victims_of(idle, missing_mb=300)
    (['c', 'a'], -100)
    """
    victims: list[str] = []
    for _, _, name, memory_mb in sorted(idle):
        if missing_mb <= 0:
            break
        victims.append(name)
        missing_mb -= memory_mb
    return victims, missing_mb
