"""Each claim's verdict turns when the numbers that it is about turn."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from esg.core.catalog.model import Catalog
from esg.emulator.reproduce.claims import judge
from esg.emulator.reproduce.experiments import (
    Results,
    Size,
    check_size,
    limit_jobs,
    run_all,
)
from esg.emulator.reproduce.overhead import MEASURED, DecisionTimes, measure
from esg.emulator.scenario import SETTINGS
from esg.errors import Rejected
from tests.support.claims import (
    AS_THE_PAPER,
    COST,
    HITS,
    everywhere,
    fallen,
    slower,
)
from tests.support.claims import catalog as catalog
from tests.support.claims import results as results
from tests.support.paper_results import overhead_as_in_the_paper, put


def test_the_papers_own_numbers_reproduce_everything(catalog: Catalog, results: Results) -> None:
    claims = judge(results, overhead_as_in_the_paper(), catalog)
    assert fallen(claims) == []
    assert len(claims) == 21
    assert {claim.verdict for claim in claims} == {"reproduced"}


Change = tuple[list[str], str, float]


TURNED: dict[str, tuple[Change, str]] = {
    "Orion hits nearly as often in strict-light": (
        (["strict-light/orion", "strict-light/orion-at-slo"], HITS, 0.75),
        "In strict-light, ESG's hit rate is higher than that of Aquatope and Orion",
    ),
    "so does FaST-GShare": (
        (["strict-light/fast-gshare", "strict-light/fast-gshare-lean"], HITS, 0.8),
        "In strict-light, ESG's hit rate is higher than that of INFless and FaST-GShare",
    ),
    "Aquatope hits most under heavy load": (
        (["relaxed-heavy/aquatope"], HITS, 0.99),
        "ESG has the highest hit rate in all three settings",
    ),
    "FaST-GShare is only a little dearer": (
        (everywhere("fast-gshare", "fast-gshare-lean"), COST, 1.3),
        "INFless and FaST-GShare cost more than ESG",
    ),
    "Aquatope is far cheaper": (
        (["moderate-normal/aquatope"], COST, 0.9),
        "ESG's cost is similar to or less than that of every other system",
    ),
    "Aquatope is the dearest": (
        (["moderate-normal/aquatope"], COST, 2.5),
        "INFless uses the most resources of all (literal reading)",
    ),
    "Orion does better with one application": (
        (
            ["moderate-normal/orion", "moderate-normal/orion-at-slo"],
            "hit_rate_by_application.depth-recognition",
            0.99,
        ),
        "ESG has the highest hit rate for every application in every setting",
    ),
    "ESG is late with one application": (
        (["relaxed-heavy/esg"], "latency_ms.by_application.depth-recognition.p50", 1481),
        "In relaxed-heavy, ESG's latency is below but close to the SLO",
    ),
    "Orion is faster than INFless with a short application": (
        (
            ["relaxed-heavy/orion", "relaxed-heavy/orion-at-slo"],
            "latency_ms.by_application.image-classification.p50",
            10,
        ),
        "In relaxed-heavy, INFless has the lowest latency for all applications but the longest",
    ),
    "Orion is slowest with the longest application": (
        (
            ["relaxed-heavy/orion", "relaxed-heavy/orion-at-slo"],
            "latency_ms.by_application.expanded-image-classification.p50",
            9999,
        ),
        "In relaxed-heavy, INFless and FaST-GShare are the slowest for the longest application",
    ),
    "Orion's plans miss less often": (
        (["moderate-normal/orion-at-slo"], "plan_miss_rate", 0.27),
        "Plans of orion-at-slo that cannot be followed, in the three settings",
    ),
    "Aquatope's plans miss less often": (
        (["strict-light/aquatope"], "plan_miss_rate", 0.85),
        "Plans of aquatope that cannot be followed, in the three settings",
    ),
    "Orion's search time hardly matters": (
        ([f"orion/{ms}/counted" for ms in (1, 10, 50, 100, 200)], HITS, 0.75),
        "Orion's hit rate drops dramatically when its search time counts (strict-light)",
    ),
    "more plans do not lower the cost": (
        (["k/80"], COST, 0.9999),
        "From K = 1 to 80 the cost falls slightly and the latency stays (strict-light)",
    ),
    "more plans take longer": (
        (["k/80"], "latency_ms.p50", 1060),
        "From K = 1 to 80 the cost falls slightly and the latency stays (strict-light)",
    ),
    "GPU sharing does not help": (
        (["ablation/no-gpu-sharing"], HITS, 0.98),
        "Without GPU sharing, waits are longer and the hit rate is lower (relaxed-heavy)",
    ),
    "nobody waits longer without GPU sharing": (
        (["ablation/no-gpu-sharing"], "latency_ms.p50", 1000),
        "Without GPU sharing, waits are longer and the hit rate is lower (relaxed-heavy)",
    ),
    "batching costs nothing": (
        (["ablation/no-batching"], COST, 1.0),
        "Without batching, the hit rate is not lower and the cost is higher (relaxed-heavy)",
    ),
    "batching is needed for deadlines": (
        (["ablation/no-batching"], HITS, 0.9),
        "Without batching, the hit rate is not lower and the cost is higher (relaxed-heavy)",
    ),
}


@pytest.mark.parametrize("case", TURNED)
def test_a_claim_falls_with_its_numbers_and_alone(
    catalog: Catalog, results: Results, case: str
) -> None:
    (labels, key, value), text = TURNED[case]
    for label in labels:
        put(results, label, key, value)
    claims = judge(results, overhead_as_in_the_paper(), catalog)
    assert fallen(claims) == [text]
    (claim,) = (claim for claim in claims if not claim.reproduced)
    assert claim.verdict == "not reproduced"
    assert claim.why.endswith(".")


OVERHEADS = {
    "A decision over three functions of 256 configs takes less than": slower(AS_THE_PAPER, 1.2),
    "Brute force over the same is orders of magnitude slower": replace(
        AS_THE_PAPER, brute_force_ms=300
    ),
    "The more relaxed the setting, the longer a decision takes": replace(
        AS_THE_PAPER,
        search=AS_THE_PAPER.search | {("relaxed-heavy", 3, 5): DecisionTimes(9, 9, effort=49)},
    ),
    "From K = 1 to 80 a decision takes longer": slower(AS_THE_PAPER, 0.1, k=80),
    "With groups of 4 functions a decision takes at most": slower(AS_THE_PAPER, 2, group_size=4),
}


@pytest.mark.parametrize("text", OVERHEADS)
def test_a_claim_about_time_falls_with_its_times_and_alone(
    catalog: Catalog, results: Results, text: str
) -> None:
    claims = judge(results, OVERHEADS[text], catalog)
    assert fallen(claims) == [text]
    assert all(claim.why for claim in claims if not claim.reproduced)


def test_a_study_in_which_an_application_never_comes_is_refused(catalog: Catalog) -> None:
    check_size(catalog, Size(requests=100, seeds=2))
    with pytest.raises(Rejected, match=r"none of them is for '.*' at the light rate with seed 0"):
        check_size(catalog, Size(requests=3, seeds=1))


def test_a_study_tells_how_many_of_its_runs_are_done(catalog: Catalog) -> None:
    size, told = Size(requests=20, seeds=1), list[float]()
    limits = list(limit_jobs(catalog, size))
    with ThreadPoolExecutor(1) as executor:
        run_all(limits[:2], limits, size, executor=executor, progress=told.append)
    assert told == sorted(told)
    assert {1, 2, 3, 4, 5} <= set(told)
    assert told[-1] == 5


def test_the_overhead_is_measured_in_every_setting(catalog: Catalog) -> None:
    told: list[float] = []
    overhead = measure(catalog, questions=3, progress=told.append)
    assert {setting for setting, _, _ in overhead.search} == set(SETTINGS)
    assert all(0 < times.mean_ms <= times.p99_ms * 1.01 for times in overhead.search.values())
    assert told == [1 + done for done in range(len(MEASURED))]
    assert len(MEASURED) * len(SETTINGS) == len(overhead.search)
    assert overhead.brute_force_ms > overhead.mean_ms(3, 5)
    efforts = {key: times.effort for key, times in overhead.search.items()}
    again = measure(catalog, questions=3)
    assert {key: times.effort for key, times in again.search.items()} == efforts
