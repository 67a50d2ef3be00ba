"""The settings of policies, with their defaults: the one home of both.

It imports next to nothing, so that asking for a default loads no policy.
"""

from dataclasses import dataclass, field

from esg.core.catalog.config import Config
from esg.errors import Rejected

Trained = dict[str, dict[str, Config]]
"""Configs that were learnt offline, by application and stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """What can be set about policies; `PolicyKind.uses` says which of it has an effect on which.

    `k` is how many plans `esg` offers per decision, `engine` what it searches with, and
    `group_size` how many functions a group of its `astar` has. `orion_cutoff_ms` is when Orion's
    search ends. `search_steps_per_ms` is how much search effort counts as a millisecond, instead
    of each policy's own figure. `without` are the features that `apex` does without.
    `trained` is what a policy that learns offline has learnt.
    """

    k: int = 5
    group_size: int = 3
    engine: str = "frontier"
    locality: bool = True
    orion_cutoff_ms: int = 100
    search_steps_per_ms: int | None = None
    without: tuple[str, ...] = ()
    trained: Trained = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        least_one(self, "k", "group_size", "search_steps_per_ms")


def least_one(settings: object, *names: str) -> None:
    """Refuse settings of these names that are below 1; those that are None are left alone."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise Rejected(f"{name} is {value}; it must be at least 1")
