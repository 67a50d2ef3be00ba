"""What Aquatope has learnt is kept in a cache, and read back."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy
from esg.emulator.training.train import (
    Budget,
    LoneRuns,
    default_cache,
    trained_configs,
)
from esg.units import ms
from tests.support.policy_cases import catalog, function

GRID = {(b, c, 1): 40.0 * b**0.7 / c**0.5 for b in (1, 2, 4) for c in (1, 2, 4)}
WIDE = {(b, c, g): 60.0 * b / g + 30 / c for b in (1, 2) for c in (1, 2) for g in (1, 2)}


TINY = Budget(bootstrap=10, rounds=1, per_round=2, candidates=50, draws=4)


def two_applications(slo_ms: float = 90, spread: float = 0.02) -> Catalog:
    stages = [Stage("a", function("a", GRID, spread)), Stage("b", function("b", WIDE, spread))]
    return catalog(
        *(Application.of(f"app-{stage.name}", [stage], slo_us=ms(slo_ms)) for stage in stages)
    )


class Counter:
    """How many runs were played."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        play = LoneRuns.run

        def counted(
            lone: LoneRuns, points: np.ndarray, rng: np.random.Generator
        ) -> tuple[np.ndarray, np.ndarray]:
            self.runs += len(points)
            return play(lone, points, rng)

        monkeypatch.setattr(LoneRuns, "run", counted)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


def learn(cache: Path, what: Catalog | None = None, seed: int = 1) -> dict[str, dict[str, Config]]:
    return trained_configs(what or two_applications(), seed=seed, cache=cache, budget=TINY)


def test_cached_configs_are_not_learnt_again(tmp_path: Path, counter: Counter) -> None:
    first = learn(tmp_path / "new" / "cache")
    assert counter.runs == 2 * TINY.trials
    assert learn(tmp_path / "new" / "cache") == first
    assert counter.runs == 2 * TINY.trials
    assert {name: list(stages) for name, stages in first.items()} == {
        "app-a": ["a"],
        "app-b": ["b"],
    }
    assert all(type(config) is Config for stages in first.values() for config in stages.values())
    assert len(list((tmp_path / "new" / "cache").iterdir())) == 2


def test_training_in_two_workers_learns_what_one_learns(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    learnt = trained_configs(
        two_applications(),
        seed=1,
        cache=tmp_path / "at once",
        budget=TINY,
        progress=lambda *what: told.append(what),
        workers=2,
    )
    assert learnt == learn(tmp_path / "one by one")
    assert list(learnt) == ["app-a", "app-b"]
    assert told[-2:] == [("app-a", 12, 12), ("app-b", 12, 12)]
    caches = (tmp_path / "at once", tmp_path / "one by one")
    files = [{file.name: file.read_text() for file in cache.iterdir()} for cache in caches]
    assert files[0] == files[1]
    assert len(files[0]) == 2


def test_a_cached_result_counts_as_progress(tmp_path: Path) -> None:
    learn(tmp_path)
    told: list[tuple[str, int, int]] = []
    trained_configs(
        two_applications(),
        seed=1,
        cache=tmp_path,
        budget=TINY,
        progress=lambda *what: told.append(what),
    )
    assert told == [("app-a", 12, 12), ("app-b", 12, 12)]


def test_training_is_repeated_when_anything_it_depends_on_changes(
    tmp_path: Path, counter: Counter
) -> None:
    learn(tmp_path)
    for what, seed in (
        (two_applications(), 2),
        (two_applications(slo_ms=91), 1),
        (two_applications(spread=0.03), 1),
    ):
        before = counter.runs
        learn(tmp_path, what, seed)
        assert counter.runs == before + 2 * TINY.trials
    before = counter.runs
    other = Budget(bootstrap=11, rounds=1, per_round=2, candidates=50, draws=4)
    trained_configs(two_applications(), seed=1, cache=tmp_path, budget=other)
    assert counter.runs == before + 2 * other.trials


def test_an_application_learns_the_same_whatever_others_there_are(tmp_path: Path) -> None:
    both = two_applications()
    alone = catalog(both.applications["app-b"])
    assert learn(tmp_path / "1", alone)["app-b"] == learn(tmp_path / "2", both)["app-b"]


DAMAGE = {
    "empty": b"",
    "cut off": b'{"key":"',
    "not text": b"\xff\xfe\x00",
    "another kind of JSON": b"[1, 2]",
    "nested too deep": b"[" * 100_000,
    "without configs": b'{"key":"KEY","application":"app-a","configs":{}}',
    "another key": b'{"key":"0","application":"app-a","configs":{"a":[1,1,1]}}',
    "no such config": b'{"key":"KEY","application":"app-a","configs":{"a":[9,9,9]}}',
    "not a config": b'{"key":"KEY","application":"app-a","configs":{"a":[1,1]}}',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_written_anew(tmp_path: Path, counter: Counter, damage: str) -> None:
    only_a = catalog(two_applications().applications["app-a"])
    first = learn(tmp_path, only_a)
    (file,) = tmp_path.iterdir()
    intact = file.read_bytes()
    key = json.loads(intact)["key"]
    file.write_bytes(DAMAGE[damage].replace(b"KEY", key.encode()))
    before = counter.runs
    assert learn(tmp_path, only_a) == first
    assert counter.runs == before + TINY.trials
    assert file.read_bytes() == intact
    assert list(tmp_path.iterdir()) == [file]


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert list(learn(blocked)) == ["app-a", "app-b"]
    assert blocked.read_text() == "in the way"


def test_a_file_that_cannot_be_finished_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", full)
    learn(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [("/var/cache", "/var/cache/esg"), ("", "/home/me/.cache/esg"), ("x", "/home/me/.cache/esg")],
)
def test_the_cache_is_where_the_platform_has_its_caches(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: str
) -> None:
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": given, "HOME": "/home/me"})
    assert default_cache() == Path(expected)


def test_training_without_a_cache_of_its_own_uses_the_platforms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trained_configs(two_applications(), seed=1, budget=TINY)
    assert len(list((tmp_path / "esg").iterdir())) == 2


def test_training_without_scikit_learn_knows_only_cached_configs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(tmp_path)
    monkeypatch.delitem(sys.modules, "esg.emulator.training.bayesian")
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match="sklearn"):
        learn(tmp_path, seed=2)
    assert learn(tmp_path)  # what was learnt before needs no library


# All together.


def test_configs_learnt_for_the_default_catalog_are_what_the_policy_takes(tmp_path: Path) -> None:
    shipped = load_catalog()
    learnt = trained_configs(shipped, seed=0, cache=tmp_path, budget=TINY)
    assert list(learnt) == list(shipped.applications)
    policy("aquatope", shipped, PolicySettings(trained=learnt))
