"""Policies that learn offline are trained before they run, or what they learnt is looked up."""

from collections.abc import Collection

from esg.console.progress import progress_bar
from esg.core.catalog.model import Catalog
from esg.core.policies.settings import Trained
from esg.core.policies.table import POLICIES, learns
from esg.emulator.training.train import trained_configs
from esg.emulator.worker_processes import usable_cores

TRAINING_SEED = 0
"""Whatever the seeds of the runs: what was learnt belongs to the policy, and a replay needs it."""


def trained_for(policies: Collection[str], catalog: Catalog, *, shown: bool) -> Trained:
    """What there is to learn of this catalog, the one that the policies will see."""
    if not any(map(learns, policies)):
        return {}
    return train(catalog, shown=shown)


def train(catalog: Catalog, *, shown: bool) -> Trained:
    """What any policy that learns offline has to know of this catalog."""
    learners = ", ".join(filter(learns, POLICIES))
    learnt = dict.fromkeys(catalog.applications, 0.0)
    with progress_bar(f"training {learners}", len(learnt), shown=shown) as advance:

        def tell(application: str, done: int, total: int) -> None:
            learnt[application] = done / total
            advance(sum(learnt.values()))

        return trained_configs(catalog, seed=TRAINING_SEED, progress=tell, workers=usable_cores())
