"""Policies that learn offline are trained before they run, or what they learnt is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Collection

    from emulator.run import Trained
    from esg.catalog import Catalog

LEARNS = "aquatope"

TRAINING_SEED = 0
"""Whatever the seeds of the runs: what was learnt belongs to the policy, and a replay needs it."""


def trained_for(policies: Collection[str], catalog: Catalog, *, shown: bool) -> Trained:
    """What there is to learn of this catalog, the one that the policies will see."""
    if LEARNS not in policies:
        return {}

    from emulator.training import trained_configs

    order = list(catalog.applications)
    with progress_bar(f"training {LEARNS}", len(order), shown=shown) as advance:

        def tell(application: str, done: int, total: int) -> None:
            advance(order.index(application) + done / total)

        return trained_configs(catalog, seed=TRAINING_SEED, progress=tell)
