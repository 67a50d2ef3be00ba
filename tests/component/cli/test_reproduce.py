"""`esg reproduce`: what it refuses, and one real study, as small as it gets."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from esg.cli.evaluation import reproduce
from esg.cli.evaluation.reproduce import print_study
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.shipped import DEFAULT
from esg.core.policies.settings import Trained
from esg.emulator.reproduce.claims import judge
from esg.emulator.reproduce.experiments import SYSTEMS, Results
from esg.emulator.reproduce.standings import level_rule
from esg.emulator.reproduce.study import Study, StudyPlan
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.paper_results import overhead_as_in_the_paper, put, results_as_in_the_paper

REFUSED = {
    "--requests 19": "--requests is 19; it must be at least 20",
    "--seeds 0": "--seeds is 0; it must be at least 1",
    "--workers 0": "--workers is 0; it must be at least 1",
    "--out no/folder/report.html": "no/folder/report.html: cannot be written...",
    "--out /dev/null": "/dev/null: is not a regular file; name another one",
    "--quik": "no such option: --quik...",
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def learn_the_minimum(catalog: Catalog, *, progress: object, **_: object) -> Trained:
    """Instead of minutes of training."""
    return {
        name: {stage.name: stage.function.profile.minimum for stage in app.stages.values()}
        for name, app in catalog.applications.items()
    }


@pytest.mark.parametrize(("line", "words"), REFUSED.items())
def test_esg_reproduce_refuses_in_one_line(esg: Run, tmp_path: Path, line: str, words: str) -> None:
    assert_refused(esg("reproduce", *line.split()), words)
    assert list(tmp_path.iterdir()) == []


def test_help_shows_the_options(esg: Run) -> None:
    ran = esg("reproduce", "--help")
    assert ran.code == 0
    for option in ("--quick", "--out", "--json", "--requests", "--seeds", "--workers"):
        assert option in ran.out


def test_a_study_is_run_and_written(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "trained_configs", learn_the_minimum)
    ran = esg("reproduce", "--quick", "--requests", 30, "--seeds", 1, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["esg-reproduce.html"]
    assert "Without batching" in (tmp_path / "esg-reproduce.html").read_text("utf-8")
    told = json.loads(ran.out)
    assert told["report"] == "esg-reproduce.html"
    assert told["size"] == {"requests": 30, "seeds": 1}
    assert told["command"] == "esg reproduce --quick --requests 30 --seeds 1"
    assert told["training"].startswith("Aquatope learnt from 350 trial runs per application")
    assert len(told["claims"]) == 21
    assert told["results"]["moderate-normal/esg"]["slo_hit_rate"] == {"mean": 1.0, "margin": 0.0}
    assert told["results"]["ablation/no-batching"]["mean_batch"]["mean"] == 1.0


def test_an_interrupted_study_says_how_much_was_done(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(plan: StudyPlan, *, progress: Callable[[float], None], **_: object) -> Study:
        progress(plan.steps / 4)
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "trained_configs", learn_the_minimum)
    monkeypatch.setattr(reproduce, "conduct", interrupted)
    ran = esg("reproduce", "--quick", "--requests", 30, "--seeds", 1)
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.startswith("interrupted: 25% was done; the report needs all of it")
    assert list(tmp_path.iterdir()) == []


def printed_study(results: Results, catalog: Catalog, width: int) -> str:
    overhead = overhead_as_in_the_paper()
    claims = judge(results, overhead, catalog)
    study = Study(catalog, results, overhead, claims, "It learnt.", "esg reproduce")
    screen = Console(file=StringIO(), width=width, markup=False, highlight=False)
    print_study(screen, study)
    assert isinstance(screen.file, StringIO)
    return screen.file.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_a_study_is_printed_within_the_terminal(width: int) -> None:
    catalog = load_catalog(DEFAULT)
    results = results_as_in_the_paper(catalog)
    put(results, "ablation/no-batching", "slo_hit_rate", 0.9)
    printed = printed_study(results, catalog, width)
    assert max(map(len, printed.splitlines())) <= width
    assert printed.endswith("\n20 of 21 claims reproduced\n")
    assert printed.count("why: ") == 1
    words = " ".join(printed.split())
    assert all(name in words for readings in SYSTEMS.values() for name in readings)
    assert "and the least it costs to be in time, with every batch full." in words
    for section in ("End-to-end performance", "Sensitivity study", "Where each one wins"):
        assert section in words


@pytest.mark.parametrize("seeds", [1, 2])
def test_shared_places_are_explained_where_places_are_shown(seeds: int) -> None:
    catalog = load_catalog(DEFAULT)
    results = results_as_in_the_paper(catalog)
    results.size = replace(results.size, seeds=seeds)
    results.outcomes = {label: found[:seeds] for label, found in results.outcomes.items()}
    words = " ".join(printed_study(results, catalog, 80).split())
    assert words.index("Where each one wins") < words.index(level_rule(results))
    assert ("seed by seed" in level_rule(results)) == (seeds > 1)
