"""Who is first, and who is level with whoever that is: one rule for all of the report.

Two figures are *level* if they are the same when rounded; or if seeds differ so much that their
difference, seed by seed, is within its own 95 % margin, and it is small besides (`LEVEL_PERCENT`).
Without the second condition two seeds, of which little can be told, would make everybody level.
"""

from dataclasses import dataclass

from esg.emulator.reproduce.experiments import SYSTEMS, Results, main

LEVEL_PERCENT = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """The system with the best mean, and all that are level with it, itself included."""

    best: str
    level: tuple[str, ...]


def standing(results: Results, setting: str, key: str, *, lowest: bool = False) -> Standing:
    """In one figure of a setting, every system with its best reading."""
    labels = {system: main(setting, results.reading(system)) for system in SYSTEMS}
    sign = 1 if lowest else -1
    best = min(SYSTEMS, key=lambda system: sign * results.mean(labels[system], key))
    near = (s for s in SYSTEMS if are_level(results, labels[s], labels[best], key))
    return Standing(best, tuple(near))


@dataclass(frozen=True, slots=True)
class Ahead:
    """Who has a better mean than a system, best first: those that beat it, those that do so within
    the margin of the difference, and those that are level with it."""

    beating: tuple[str, ...]
    beating_unclearly: tuple[str, ...]
    level: tuple[str, ...]


def ahead_of(results: Results, system: str, setting: str, key: str) -> Ahead:
    """In one figure of which more is better, every system with its best reading."""
    labels = {name: main(setting, results.reading(name)) for name in SYSTEMS}
    means = {name: results.mean(label, key) for name, label in labels.items()}
    better = [name for name in SYSTEMS if means[name] > means[system]]
    better.sort(key=lambda name: -means[name])
    level = [name for name in better if are_level(results, labels[name], labels[system], key)]
    unclear = [
        name
        for name in better
        if name not in level and results.difference(labels[name], labels[system], key).is_unclear
    ]
    clear = [name for name in better if name not in level and name not in unclear]
    return Ahead(tuple(clear), tuple(unclear), tuple(level))


def are_level(results: Results, label: str, other: str, key: str) -> bool:
    decimals = 0 if key.startswith("latency_ms") else 3  # as milliseconds, shares and USD are shown
    mine, theirs = results.mean(label, key), results.mean(other, key)
    if round(mine, decimals) == round(theirs, decimals):
        return True
    gap = results.difference(label, other, key)
    small = abs(gap.mean) * 100 <= LEVEL_PERCENT * max(abs(mine), abs(theirs))
    return small and gap.is_unclear


def level_rule(results: Results) -> str:
    """In words, as far as it matters here."""
    same = (
        "Systems share a place if their figures are the same when rounded (what is shown as 99.9 % "
        "may round to 100 %)"
    )
    if results.size.seeds == 1:
        return f"{same}."
    return (
        f"{same}, or if they differ by at most {LEVEL_PERCENT} % and by no more than the 95 % "
        "margin of the difference, seed by seed."
    )
