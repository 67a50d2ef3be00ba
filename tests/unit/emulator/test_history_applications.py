"""Applications that come and go in a journal do so again."""

from pathlib import Path
from typing import Any

import pytest

from esg.core.messages.commands import AnswerRequest, Command
from esg.core.messages.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Correction,
    Event,
    ProfilesCorrected,
    RequestArrived,
    StageSpec,
)
from esg.emulator.history import exogenous, replay_strictly
from esg.emulator.run import Emulation, emulate
from esg.emulator.scenario import Scenario
from esg.runtime.journal_files import read_journal
from tests.support.emulated_runs import paper, scenario
from tests.support.journal_cases import FIFTY, again, from_the_middle

TWICE = (
    StageSpec(name="first", function="super-resolution"),
    StageSpec(name="second", function="super-resolution", after=("first",)),
)


def changing() -> list[tuple[int, Event]]:
    """A day on which one application comes, one changes and one goes, while requests come."""
    came: list[tuple[int, Event]] = list(FIFTY.arrivals(list(paper().applications), 0))
    new = [
        (at_us, RequestArrived(request=f"n{n}", application="twice"))
        for n, (at_us, _) in enumerate(came[10:20])
    ]
    changed = "image-classification"
    changes: list[tuple[int, Event]] = [
        (came[5][0], ApplicationRegistered(application="twice", stages=TWICE, slo_scale=2.0)),
        (came[25][0], ApplicationRegistered(application=changed, stages=TWICE, slo_us=10**6)),
        (came[30][0], ApplicationRetired(application="twice")),
        (came[30][0], RequestArrived(request="late", application="twice")),
    ]
    return sorted([*came, *new, *changes], key=lambda pair: pair[0])


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Emulation]:
    path = tmp_path_factory.mktemp("journals") / "changing.journal"
    with path.open("w", encoding="utf-8") as file:
        return path, emulate(paper(), scenario(nodes=3), changing(), journal=file)


def test_applications_that_come_and_go_are_kept(changed: tuple[Path, Emulation]) -> None:
    kept = [type(event) for _, event in exogenous(read_journal(changed[0]), keep_slos=True)]
    assert kept.count(ApplicationRegistered) == 2
    assert kept.count(ApplicationRetired) == 1


def test_a_day_on_which_applications_change_can_be_replayed(
    changed: tuple[Path, Emulation],
) -> None:
    path, emulation = changed
    assert emulation.report.served.invalid == 1
    assert emulation.report.applications["twice"].arrived == 11
    assert len(emulation.report.applications["twice"].latency_us) == 10
    assert all("@" not in name for name in emulation.report.applications)
    assert replay_strictly(path, paper()).digest == emulation.digest
    assert again(path).digest == emulation.digest


def test_under_other_conditions_the_same_applications_come_and_go(
    changed: tuple[Path, Emulation],
) -> None:
    for changes in ({"policy": "infless"}, {"policy": "orion"}, {"nodes": 5}, {"engine": "astar"}):
        other = again(changed[0], **changes)
        assert other.report.served.invalid == 1
        assert len(other.report.applications["twice"].latency_us) == 10


def after_the(kind: type[Event], path: Path) -> int:
    """How many entries there are up to the first of this kind."""
    kinds = [type(entry.event) for entry in read_journal(path)]
    return kinds.index(kind) + 1


@pytest.mark.parametrize("kind", [ApplicationRegistered, ApplicationRetired])
def test_applications_that_a_snapshot_knows_are_there_from_the_start(
    changed: tuple[Path, Emulation], tmp_path: Path, kind: type[Event]
) -> None:
    after = after_the(kind, changed[0])
    path = from_the_middle(changed[0], tmp_path / "rest.journal", after=after)
    judged, other = replay_strictly(path, paper()).report, again(path, nodes=5).report
    assert judged.arrived > 0
    assert (other.arrived, other.served.invalid) == (judged.arrived, judged.served.invalid)


def test_a_catalogs_application_that_was_retired_before_stays_so(tmp_path: Path) -> None:
    name = "image-classification"
    events: list[tuple[int, Event]] = [
        (0, ApplicationRetired(application=name)),
        (1, RequestArrived(request="r1", application=name)),
    ]
    whole = tmp_path / "whole.journal"
    with whole.open("w", encoding="utf-8") as file:
        emulate(paper(), scenario(nodes=3), events, journal=file)
    after = after_the(ApplicationRetired, whole)
    path = from_the_middle(whole, tmp_path / "rest.journal", after=after)
    assert again(path).report.served.invalid == 1


def test_corrections_in_a_journal_are_known_from_the_start(tmp_path: Path) -> None:
    slow = ProfilesCorrected(
        corrections=(Correction(function="super-resolution", batch=1, pace_ppm=3_000_000),)
    )
    came = RequestArrived(request="r1", application="image-classification")
    whole = tmp_path / "whole.journal"
    with whole.open("w", encoding="utf-8") as file:
        emulation = emulate(paper(), scenario(nodes=3), [(0, slow), (1, came)], journal=file)
    after = after_the(ProfilesCorrected, whole)
    path = from_the_middle(whole, tmp_path / "rest.journal", after=after)
    assert again(path).report.summary()["latency_ms"] == emulation.summary()["latency_ms"]


def deadlines(conditions: Scenario, registered: ApplicationRegistered) -> list[int]:
    """What requests for an application that came are promised, or nothing if it was refused."""
    found: list[int] = []

    def observe(now_us: int, event: Event, commands: list[Command]) -> None:
        answers = (command for command in commands if isinstance(command, AnswerRequest))
        found.extend(answer.deadline_us - answer.arrived_us for answer in answers)

    request = RequestArrived(request="r1", application=registered.application)
    emulate(paper(), conditions, [(0, registered), (1, request)], observe=observe)
    return found


@pytest.mark.parametrize(
    ("conditions", "slo", "expected_us"),
    [
        ({}, {"slo_us": 600_000}, [600_000]),
        ({}, {"slo_scale": 2.0}, [344_000]),
        ({"slo_scale": 3.0}, {"slo_us": 600_000}, [516_000]),
        ({"slo_scale": 3.0}, {"slo_scale": 2.0}, [516_000]),
        ({"gpu_sharing": False}, {"slo_scale": 2.0}, [344_000]),
        ({"time_scale": 0.1}, {"slo_scale": 2.0}, [34_400]),
        ({"slo_scale": 0.001}, {"slo_scale": 2.0}, []),
    ],
    ids=str,
)
def test_applications_that_come_get_the_slos_of_the_scenario(
    conditions: dict[str, Any], slo: dict[str, Any], expected_us: list[int]
) -> None:
    """The time alone of super-resolution twice in a row is 172 ms."""
    came = ApplicationRegistered(application="twice", stages=TWICE, **slo)
    assert deadlines(scenario(**{"slo_scale": None, **conditions}), came) == expected_us
