"""Who is ahead, level or beaten, by the seeds' margins."""

from esg.core.catalog.model import Catalog
from esg.emulator.reproduce.claims import judge
from esg.emulator.reproduce.experiments import (
    SYSTEMS,
    Results,
    Size,
)
from esg.emulator.reproduce.figures import figures
from esg.emulator.reproduce.standings import Standing, standing
from esg.emulator.reproduce.study import Study, Win, wins
from esg.emulator.sweep import Estimate
from tests.support.claims import (
    AS_THE_PAPER,
    COST,
    HIGHEST,
    HITS,
    everywhere,
    fallen,
    put_each,
    put_orion,
    the,
)
from tests.support.claims import catalog as catalog
from tests.support.claims import results as results
from tests.support.paper_results import put


def test_a_rival_enters_with_the_reading_that_hits_most(results: Results) -> None:
    for label in everywhere("infless-code"):
        put(results, label, HITS, 0.71)
        put(results, label, COST, 99)
    assert results.reading("INFless") == "infless-code"


def test_among_readings_that_hit_as_often_the_cheapest_enters(results: Results) -> None:
    put(results, "strict-light/orion-at-slo", COST, 1.09)
    assert results.reading("Orion") == "orion-at-slo"


def test_the_readings_that_enter_are_the_ones_that_are_judged(
    catalog: Catalog, results: Results
) -> None:
    for label in everywhere("infless-code"):
        put(results, label, HITS, 0.71)
    ours = judge(results, AS_THE_PAPER, catalog)[1].ours
    assert ours == "+38 ± 0 % against infless-code, +51 ± 0 % against fast-gshare"


def test_figures_are_compared_seed_by_seed(results: Results) -> None:
    for outcome, mine, theirs in zip(
        results.outcomes["k/1"], (2.0, 30.0), (1.0, 10.0), strict=True
    ):
        outcome.summary[COST] = mine
        results.outcomes["k/5"][outcome.seed].summary[COST] = theirs
    assert results.relative("k/1", "k/5", COST) == Estimate.of([2.0, 3.0])


def test_first_place_is_named_and_ties_are_shared(results: Results) -> None:
    put(results, "strict-light/aquatope", HITS, 0.98)
    put(results, "relaxed-heavy/fast-gshare", COST, 0.5)
    put(results, "relaxed-heavy/fast-gshare-lean", COST, 0.5)
    found = {(win.setting, win.contest): win for win in wins(results)}
    assert len(found) == 9
    assert found["strict-light", "highest hit rate"] == Win(
        "strict-light", "highest hit rate", ("ESG", "Aquatope"), "98.0 %"
    )
    assert found["relaxed-heavy", "lowest cost"].systems == ("FaST-GShare",)
    assert found["relaxed-heavy", "lowest p99 latency"].systems == tuple(SYSTEMS)


def test_difference_of_one_request_in_twenty_thousand_beats_nobody(
    catalog: Catalog, results: Results
) -> None:
    put(results, "relaxed-heavy/aquatope", HITS, 1.0)
    put(results, "relaxed-heavy/esg", HITS, 0.99995)
    for name in catalog.applications:
        put(results, "relaxed-heavy/aquatope", f"hit_rate_by_application.{name}", 1.0)
        put(results, "relaxed-heavy/esg", f"hit_rate_by_application.{name}", 0.99995)
    claims = judge(results, AS_THE_PAPER, catalog)
    assert fallen(claims) == []
    assert the(HIGHEST, claims).ours.endswith(
        "relaxed-heavy 99.9 ± 0.0 % (level with aquatope 100.0 ± 0.0 %)"
    )
    found = {(win.setting, win.contest): win for win in wins(results)}
    assert found["relaxed-heavy", "highest hit rate"].systems == ("ESG", "Aquatope")
    study = Study(catalog, results, AS_THE_PAPER, claims, "", "")
    assert "first or level in strict-light, moderate-normal, relaxed-heavy." in (
        figures(study)[0].caption
    )


def test_policy_level_with_the_first_may_yet_be_beaten_by_the_second(
    catalog: Catalog, results: Results
) -> None:
    """The first is ahead by luck with one seed, the second by little with every seed."""
    put_each(results, "strict-light/esg", HITS, 0.95, 0.95)
    put_each(results, "strict-light/aquatope", HITS, 0.968, 0.95)
    put_orion(results, HITS, 0.957, 0.957)
    claim = the(HIGHEST, judge(results, AS_THE_PAPER, catalog))
    assert "(beaten by orion 95.7 ± 0.0 %, level with aquatope 95.9 ± 11.4 %)" in claim.ours
    assert not claim.reproduced


def test_policy_that_beats_esg_within_the_margin_is_said_to(
    catalog: Catalog, results: Results
) -> None:
    put_orion(results, HITS, 1.0, 0.99)
    put_each(results, "strict-light/esg", HITS, 0.97, 0.98)
    claim = the(HIGHEST, judge(results, AS_THE_PAPER, catalog))
    assert "(beaten within the margin by orion 99.5 ± 6.4 %)" in claim.ours
    assert not claim.reproduced


def test_policies_that_are_level_are_not_said_to_have_the_figure_of_the_best(
    results: Results,
) -> None:
    put_each(results, "relaxed-heavy/esg", HITS, 1.0, 1.0)
    put_each(results, "relaxed-heavy/orion", HITS, 1.0, 1.0)
    put_each(results, "relaxed-heavy/orion-at-slo", HITS, 1.0, 1.0)
    put_each(results, "relaxed-heavy/aquatope", HITS, 1.0, 0.982)
    found = {(win.setting, win.contest): win for win in wins(results)}
    assert found["relaxed-heavy", "highest hit rate"] == Win(
        "relaxed-heavy",
        "highest hit rate",
        ("ESG", "Orion", "Aquatope"),
        "100.0 %; Aquatope 99.1 %",
    )


def test_claim_names_all_that_beat_esg_and_says_which_are_only_level(
    catalog: Catalog, results: Results
) -> None:
    put_each(results, "strict-light/aquatope", HITS, 0.995, 0.995)
    for reading in SYSTEMS["INFless"]:
        put_each(results, f"strict-light/{reading}", HITS, 0.999, 0.999)
    for reading in SYSTEMS["Orion"]:
        put_each(results, f"strict-light/{reading}", HITS, 0.977, 0.985)
    claim = the(HIGHEST, judge(results, AS_THE_PAPER, catalog))
    assert claim.ours.startswith(
        "strict-light 98.0 ± 0.0 % (beaten by infless 99.9 ± 0.0 % and aquatope 99.5 ± 0.0 %, "
        "level with orion 98.1 ± 5.1 %); moderate-normal"
    )
    assert not claim.reproduced


def test_reason_names_all_that_beat_esg(catalog: Catalog, results: Results) -> None:
    put(results, "strict-light/aquatope", HITS, 0.995)
    put(results, "strict-light/aquatope", "latency_ms.p50", 900)
    for reading in SYSTEMS["INFless"]:
        put(results, f"strict-light/{reading}", HITS, 0.999)
        put(results, f"strict-light/{reading}", "latency_ms.p50", 900)
    why = the(HIGHEST, judge(results, AS_THE_PAPER, catalog)).why
    assert "(infless in strict-light +100.0 %, aquatope in strict-light +20.0 %)" in why


def test_a_small_difference_that_seeds_do_not_agree_on_is_none(results: Results) -> None:
    put_each(results, "strict-light/esg", HITS, 0.95, 0.97)
    put_each(results, "strict-light/aquatope", HITS, 0.97, 0.96)
    assert standing(results, "strict-light", HITS) == Standing("Aquatope", ("ESG", "Aquatope"))
    put_each(results, "strict-light/aquatope", HITS, 0.955, 0.975)
    assert standing(results, "strict-light", HITS) == Standing("Aquatope", ("Aquatope",))


def test_seeds_that_tell_little_do_not_make_everybody_level(results: Results) -> None:
    put_each(results, "strict-light/esg", HITS, 0.80, 0.97)
    put_each(results, "strict-light/aquatope", HITS, 0.97, 0.96)
    assert standing(results, "strict-light", HITS).level == ("Aquatope",)


def test_figures_of_one_seed_are_level_if_they_are_shown_alike(results: Results) -> None:
    results.size = Size(requests=100, seeds=1)
    results.outcomes = {label: outcomes[:1] for label, outcomes in results.outcomes.items()}
    put(results, "strict-light/aquatope", HITS, 0.9804)
    assert standing(results, "strict-light", HITS) == Standing("Aquatope", ("ESG", "Aquatope"))
    put(results, "strict-light/aquatope", HITS, 0.9812)
    assert standing(results, "strict-light", HITS) == Standing("Aquatope", ("Aquatope",))


def test_claims_show_margins_unless_there_is_one_seed(catalog: Catalog, results: Results) -> None:
    put_each(results, "strict-light/esg", HITS, 0.97, 0.99)
    several = judge(results, AS_THE_PAPER, catalog)
    assert the(HIGHEST, several).ours.startswith("strict-light 98.0 ± 12.7 %; ")
    assert all("±" in claim.ours for claim in several if "points" in claim.ours)
    results.size = Size(requests=100, seeds=1)
    results.outcomes = {label: outcomes[:1] for label, outcomes in results.outcomes.items()}
    alone = judge(results, AS_THE_PAPER, catalog)
    assert the(HIGHEST, alone).ours.startswith("strict-light 97.0 %; ")
    assert not any("±" in claim.ours for claim in alone)
