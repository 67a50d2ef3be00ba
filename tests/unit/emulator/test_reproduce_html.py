"""The page: complete, harmless, and in need of nothing else."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog
from esg.core.catalog.shipped import DEFAULT
from esg.emulator.reproduce.claims import judge
from esg.emulator.reproduce.experiments import SYSTEMS, Results, Size, main
from esg.emulator.reproduce.figures import OURS, figures
from esg.emulator.reproduce.html import page
from esg.emulator.reproduce.readings import DEVIATIONS, READINGS
from esg.emulator.reproduce.standings import level_rule
from esg.emulator.reproduce.study import Study, document
from tests.support.paper_results import overhead_as_in_the_paper, put, results_as_in_the_paper

HOSTILE = '"><script>alert(1)<img src=x onerror=alert(2)>&amp;'
ENDED = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
LOADING = {"action", "data", "formaction", "href", "poster", "src", "srcset", "xlink:href"}
ALONE = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """What is in a page: its tags, its attributes, its text, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.plots: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ALONE:
            self.open.append(tag)
        self._json = ("type", "application/json") in attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            (self.plots if self._json else self.scripts).append(data)
        elif inside != "style":
            self.words.append(data)


def study_of(catalog: Catalog) -> Study:
    results, overhead = results_as_in_the_paper(catalog), overhead_as_in_the_paper()
    put(results, "relaxed-heavy/aquatope", "slo_hit_rate", 0.99)
    claims = judge(results, overhead, catalog)
    return Study(catalog, results, overhead, claims, "It learnt <a lot>.", "esg reproduce --quick")


@pytest.fixture(scope="module")
def study() -> Study:
    return study_of(load_catalog(DEFAULT))


@pytest.fixture(scope="module")
def html(study: Study) -> str:
    return page(study, ended=ENDED)


@pytest.fixture(scope="module")
def parsed(html: str) -> Page:
    return Page(html)


def test_reproduction_page_closes_every_tag(parsed: Page) -> None:
    assert parsed.open == []
    assert parsed.tags[0] == "html"


def test_reproduction_page_has_every_claim_with_its_verdict(study: Study, parsed: Page) -> None:
    for claim in study.claims:
        for text in (claim.text, claim.paper, claim.ours, claim.verdict, claim.why):
            assert " ".join(text.split()) in parsed.text
    assert parsed.text.count("not reproduced") == 1
    assert "20 of 21 claims were reproduced." in parsed.text


def test_reproduction_page_says_how_it_was_made(parsed: Page) -> None:
    assert "esg reproduce --quick" in parsed.text
    assert "100 requests per run, 2 seeds" in parsed.text
    assert "on 2026-03-04 05:06+00:00" in parsed.text
    assert "The profiles are modelled." in parsed.text
    opening, _, _ = parsed.text.partition("How it was made")
    assert "are modelled: the paper's are not public" in opening
    assert "It learnt <a lot>." in parsed.text


def test_reproduction_page_names_all_systems_and_their_readings(parsed: Page) -> None:
    for system, readings in SYSTEMS.items():
        assert system in parsed.text
        assert all(policy in parsed.text for policy in readings)


def test_the_first_figures_have_a_bar_for_our_own_policy_in_every_setting(study: Study) -> None:
    first, second, *_ = figures(study)
    for panel in (*first.panels, *second.panels):
        (ours,) = (trace for trace in panel.plot.data if trace.name == OURS)
        assert len(ours.y) == 3
    assert OURS in first.legend


def test_a_rival_that_wins_is_said_to(parsed: Page) -> None:
    assert "relaxed-heavy — highest hit rate: Aquatope (99.0 %)" in parsed.text


def test_reproduction_page_explains_shared_places(study: Study, parsed: Page) -> None:
    assert level_rule(study.results) in parsed.text


def with_one_seed(study: Study) -> Study:
    outcomes = {label: found[:1] for label, found in study.results.outcomes.items()}
    results = Results(Size(requests=100, seeds=1), outcomes)
    return replace(study, results=results, claims=judge(results, study.overhead, study.catalog))


def test_reproduction_page_of_one_seed_shows_no_interval(study: Study, parsed: Page) -> None:
    alone = Page(page(with_one_seed(study), ended=ENDED))
    for words in ("±", "95 %", "interval"):
        assert words in parsed.text
        assert words not in alone.text
    assert "Bars are of one seed;" in alone.text


def test_reproduction_page_shows_only_a_perfect_rate_as_one() -> None:
    study = study_of(load_catalog(DEFAULT))
    for label, outcomes in study.results.outcomes.items():
        if outcomes[0].summary["slo_hit_rate"] > 0.9:
            put(study.results, label, "slo_hit_rate", 0.99996)
    claims = judge(study.results, study.overhead, study.catalog)
    text = Page(page(replace(study, claims=claims), ended=ENDED)).text
    assert "99.9" in text
    assert "100.0" not in text


def test_reproduction_page_says_what_every_reading_is(parsed: Page) -> None:
    shown = [policy for readings in SYSTEMS.values() for policy in readings]
    shown += ["esg, with A*", "apex"]
    assert list(READINGS) == shown
    for policy, text in READINGS.items():
        assert f"{policy} : {text}" in parsed.text
    assert "does best here: infless , fast-gshare , orion ." in parsed.text


def test_reproduction_page_says_where_systems_deviate_from_the_paper(parsed: Page) -> None:
    assert set(DEVIATIONS) == {"Aquatope", "INFless"}
    for system, text in DEVIATIONS.items():
        assert f"{system} : {text}" in parsed.text


def test_intervals_of_hit_rates_stay_within_0_and_100_percent() -> None:
    study = study_of(load_catalog(DEFAULT))
    for label, values in {
        "relaxed-heavy/esg": (0.91, 1.0),
        "relaxed-heavy/orion": (0.0, 0.1),
    }.items():
        for outcome, value in zip(study.results.outcomes[label], values, strict=True):
            outcome.summary["slo_hit_rate"] = value
    (hits, costs) = figures(study)[0].panels
    found = 0
    for trace in hits.plot.data:
        bars = trace.error_y
        if bars.array is None:
            continue
        found += 1
        for mean, up, down in zip(trace.y, bars.array, bars.arrayminus, strict=True):
            assert 0 <= mean - down <= mean + up <= 100
    assert found
    assert costs.plot.data


def test_readings_that_gave_the_same_orders_are_named_and_no_others(parsed: Page) -> None:
    same = "gave the very same orders"
    assert same not in parsed.text  # nothing is known of orders in these results
    study = study_of(load_catalog(DEFAULT))
    for label, outcomes in study.results.outcomes.items():
        for outcome in outcomes:
            outcome.summary["digest"] = f"{outcome.seed}:{label.replace('infless-code', 'infless')}"
    told = Page(page(study, ended=ENDED)).text
    assert "infless and infless-code gave the very same orders in every run here." in told
    assert told.count(same) == 1
    study.results.outcomes["strict-light/infless"][1].summary["digest"] = "another"
    assert same not in Page(page(study, ended=ENDED)).text


def test_the_limit_of_the_cost_is_for_those_who_are_in_time(parsed: Page) -> None:
    assert parsed.text.count("the least it costs to be in time") == 2
    assert "pay less" not in parsed.text


def test_figures_that_are_shown_alike_are_shown_once(study: Study) -> None:
    (groups,) = (figure for figure in figures(study) if figure.title.startswith("Group size"))
    assert "The hit rate is 98.0 %, and" in groups.caption


def test_every_latency_axis_has_ticks_to_read_it_by(study: Study) -> None:
    before = study.results.outcomes["relaxed-heavy/esg"][0].series
    for low_us, high_us in ((600_000, 640_000), (400_000, 900_000), (300_000, 20_000_000)):
        series = dict.fromkeys(before, ([1, 2], [low_us, high_us]))
        for system in SYSTEMS:
            label = main("relaxed-heavy", study.results.reading(system))
            study.results.outcomes[label][0].series = series
        (latencies,) = (figure for figure in figures(study) if "latency" in figure.title)
        for panel in latencies.panels:
            assert 3 <= len(panel.plot.layout.yaxis.tickvals) <= 9
            assert panel.plot.layout.yaxis.tickformat == "d"  # not 5000, then 10k
    for outcomes in study.results.outcomes.values():
        outcomes[0].series = before


def test_labels_beside_each_other_are_short(study: Study) -> None:
    for figure in figures(study):
        for panel in figure.panels:
            labels = [x for x in panel.plot.data[0].x if isinstance(x, str)]
            lines = [line for label in labels for line in label.split("<br>")]
            assert all(len(line) * len(labels) <= 30 for line in lines)


def test_reproduction_page_loads_nothing(html: str, parsed: Page) -> None:
    assert [name for name, _ in parsed.attributes if name in LOADING] == []
    assert {"link", "iframe", "img", "object", "embed", "base"}.isdisjoint(parsed.tags)
    assert "default-src 'none'" in dict(parsed.attributes)["content"]  # type: ignore[operator]
    assert "@import" not in html[: html.index("</style>")]
    assert "url(" not in html[: html.index("</style>")]


def test_every_figure_has_a_caption_and_its_plots_are_json(study: Study, parsed: Page) -> None:
    drawn = figures(study)
    assert parsed.tags.count("figure") == parsed.tags.count("figcaption") == len(drawn) == 9
    assert len(parsed.plots) == sum(len(figure.panels) for figure in drawn)
    for plot in map(json.loads, parsed.plots):
        assert plot["data"]
        assert all(trace["y"] for trace in plot["data"])


def test_plotly_is_there_once_and_the_file_is_not_too_large(html: str, parsed: Page) -> None:
    assert [len(script) > 1_000_000 for script in parsed.scripts] == [True, False]
    assert len(html) < 8_000_000


def test_long_series_are_thinned(study: Study) -> None:
    before = study.results.outcomes["relaxed-heavy/esg"][0].series
    long = list(range(10_000))
    study.results.outcomes["relaxed-heavy/esg"][0].series = dict.fromkeys(before, (long, long))
    (latencies,) = (figure for figure in figures(study) if "latency" in figure.title)
    study.results.outcomes["relaxed-heavy/esg"][0].series = before
    assert 200 <= len(latencies.panels[0].plot.data[0].x) <= 250


def test_a_hostile_name_is_only_shown() -> None:
    shipped = load_catalog(DEFAULT)
    applications = dict(shipped.applications)
    first = applications.pop("image-classification")
    hostile = Application.of(HOSTILE, list(first.stages.values()), slo_us=first.slo_us)
    catalog = replace(shipped, applications={HOSTILE: hostile} | applications)
    parsed = Page(page(study_of(catalog), ended=ENDED))
    assert parsed.text.count(HOSTILE) >= 4
    assert "img" not in parsed.tags
    assert "onerror" not in dict(parsed.attributes)
    assert not any("alert(" in script for script in parsed.scripts[1:])
    assert not any("<" in plot.replace("<br>", "") for plot in parsed.plots)


def test_the_document_is_json_and_has_a_margin_for_every_figure(study: Study) -> None:
    told = json.loads(json.dumps(document(study), allow_nan=False))
    assert told["size"] == {"requests": 100, "seeds": 2}
    assert told["results"]["relaxed-heavy/aquatope"]["slo_hit_rate"] == {"mean": 0.99, "margin": 0}
    assert {claim["verdict"] for claim in told["claims"]} == {"reproduced", "not reproduced"}
    assert set(told["claims"][0]) == {"section", "claim", "paper", "ours", "verdict", "why"}
    assert told["overhead"]["brute_force_ms"] == 7258


def test_the_document_has_what_the_claims_about_latency_rest_on(study: Study) -> None:
    told = document(study)
    for name, application in study.catalog.applications.items():
        figure = told["results"]["relaxed-heavy/esg"][f"latency_ms.by_application.{name}.p50"]
        assert figure["mean"] == pytest.approx(0.9 * 1.2 * application.alone_us / 1000)
        assert f"latency_ms.by_application.{name}.p99" in told["results"]["strict-light/orion"]
    assert set(told["latency_series"]) == {p for readings in SYSTEMS.values() for p in readings}
    assert told["latency_series"]["aquatope"]["depth-recognition"] == {
        "answered": 3,
        "last_answered_s": 0.00003,
        "median_ms_by_quarter": [1.0, 2.0, 3.0],
    }
