"""Results as in the paper, and how claims about them are changed one by one."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.catalog.shipped import DEFAULT
from esg.emulator.reproduce.claims.claim import Claim
from esg.emulator.reproduce.experiments import (
    SYSTEMS,
    Results,
    main,
)
from esg.emulator.reproduce.overhead import Overhead
from esg.emulator.scenario import SETTINGS
from tests.support.paper_results import overhead_as_in_the_paper, put, results_as_in_the_paper

COST = "cost_usd_per_1k_requests"


HITS = "slo_hit_rate"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return on_its_cluster(load_catalog(DEFAULT))


@pytest.fixture
def results(catalog: Catalog) -> Results:
    return results_as_in_the_paper(catalog)


def fallen(claims: Iterable[Claim]) -> list[str]:
    return [claim.text for claim in claims if not claim.reproduced]


def everywhere(*policies: str) -> list[str]:
    return [main(setting, policy) for setting in SETTINGS for policy in policies]


def slower(overhead: Overhead, factor: float, *, group_size: int = 3, k: int = 5) -> Overhead:
    search = {
        (setting, g, kk): t._replace(mean_ms=t.mean_ms * factor, p99_ms=t.p99_ms * factor)
        if (g, kk) == (group_size, k)
        else t
        for (setting, g, kk), t in overhead.search.items()
    }
    return replace(overhead, search=search)


AS_THE_PAPER = overhead_as_in_the_paper()


HIGHEST = "ESG has the highest hit rate in all three settings"


def put_each(results: Results, label: str, key: str, *values: float) -> None:
    """One value per seed."""
    for outcome, value in zip(results.outcomes[label], values, strict=True):
        put(Results(results.size, {label: [outcome]}), label, key, value)


def the(text: str, claims: Iterable[Claim]) -> Claim:
    (claim,) = (claim for claim in claims if claim.text == text)
    return claim


def put_orion(results: Results, key: str, *values: float) -> None:
    for reading in SYSTEMS["Orion"]:
        put_each(results, f"strict-light/{reading}", key, *values)
