"""The features of policy `apex`: each can be left out, to see what it brings (ablation)."""

from collections.abc import Iterable
from enum import StrEnum

from esg.errors import Rejected
from esg.suggest import did_you_mean


class Feature(StrEnum):
    """By the names that `--without` takes."""

    ORDER = "order"
    """Visit the queues whose jobs are nearest to their end first, not round-robin."""
    RISK = "risk"
    """Plan with measured times, and weigh the risk to be late; not with the profiles' means."""
    COHORTS = "cohorts"
    """Plan for the batches that the jobs at hand can fill, not for those one might wish for."""
    HOLDING = "holding"
    """Wait for more jobs where that is worth it."""
    HOPELESS = "hopeless"
    """Jobs that can no longer make it run last, and only where there is room to spare."""
    SCARCITY = "scarcity"
    """Count vCPUs at higher prices as they run out."""
    PLACEMENT = "placement"
    """Keep together what will be batched; weigh a transfer against another config."""
    DARING = "daring"
    """Take what there is room for, if that may be in time, rather than wait for what is safe."""
    FORESIGHT = "foresight"
    """Load the models of all stages as soon as an application is called."""
    STANDING = "standing"
    """Let nodes go on with the next stage by themselves where nobody competes."""


def listed(names: str) -> tuple[str, ...]:
    """The names in a list that is separated by commas.

    >>> listed("risk, holding")
    ('risk', 'holding')
    """
    return tuple(name.strip() for name in names.split(",") if name.strip())


def left_out(names: Iterable[str]) -> frozenset[Feature]:
    """The features with these names, none of which may be unknown.

    >>> sorted(left_out(["risk", "holding"]))
    [<Feature.HOLDING: 'holding'>, <Feature.RISK: 'risk'>]
    """
    known = [str(feature) for feature in Feature]
    found = []
    for name in names:
        if name not in known:
            raise Rejected(did_you_mean("feature of apex", name, known))
        found.append(Feature(name))
    return frozenset(found)
