"""A polite client of one emulated node keeps its deadlines, whatever another client sends."""

from collections.abc import Iterable
from functools import cache

import pytest

from esg.core.messages.commands import AnswerRequest
from esg.core.messages.events import ApplicationRegistered, Event, RequestArrived, StageSpec
from esg.emulator.run import emulate
from esg.emulator.scenario import Scenario
from esg.runtime.settings import ControllerSettings
from esg.units import ms, seconds
from tests.support.emulated_runs import Seen, paper

APPLICATION = "image-classification"
SLO_US = ms(1200)  # it takes about 630 ms alone
SPAN_S = 30
PER_S, FLOOD_PER_S = {7: 2, 2: 1}, 100  # by how many slices there are
OWN = tuple(f"flood~own{n}" for n in range(12))


def events(per_s: int, client: str, applications: tuple[str, ...]) -> Iterable[tuple[int, Event]]:
    for n in range(per_s * SPAN_S):
        application = applications[n % len(applications)]
        event = RequestArrived(
            request=f"{client}{n}", application=application, slo_us=SLO_US, client=client
        )
        yield seconds(n) // per_s, event


def own_applications() -> Iterable[tuple[int, Event]]:
    functions = sorted(paper().functions)
    for n, name in enumerate(OWN):
        stage = StageSpec(name="only", function=functions[n % len(functions)])
        yield 0, ApplicationRegistered(application=name, stages=(stage,))


FLOODS: dict[str, tuple[tuple[int, Event], ...]] = {
    "none": (),
    "of the same application": tuple(events(FLOOD_PER_S, "flood", (APPLICATION,))),
    "of twelve applications": (*own_applications(), *events(FLOOD_PER_S, "flood", OWN)),
}


@cache
def in_time(policy: str, flood: str, slices: int = 7) -> float:
    """The share of the polite client's requests that were in time."""
    live = ControllerSettings()
    scenario = Scenario(
        policy=policy,
        nodes=1,
        vcpus=16,
        vgpus=slices,
        fair_quantum_us=ms(live.fair_quantum_ms),
        max_wait_us=seconds(live.max_wait_s),
    )
    polite = tuple(events(PER_S[slices], "polite", (APPLICATION,)))
    told = sorted((*FLOODS[flood], *polite), key=lambda one: one[0])
    seen = Seen()
    emulate(paper(), scenario, told, observe=seen.observe)
    answers = seen.book.answers
    mine = [answer for request, answer in answers.items() if request.startswith("polite")]
    return sum(isinstance(a, AnswerRequest) and a.slo_met for a in mine) / len(polite)


# attack: C1, C2
@pytest.mark.parametrize("flood", ["of the same application", "of twelve applications"])
@pytest.mark.parametrize("policy", ["apex", "esg"])
def test_a_flood_costs_a_polite_client_hardly_any_deadline(policy: str, flood: str) -> None:
    assert in_time(policy, "none") == 1
    assert in_time(policy, flood) >= 0.95


# attack: C1
@pytest.mark.parametrize("policy", ["apex", "esg"])
def test_a_client_within_its_share_of_two_slices_keeps_its_deadlines(policy: str) -> None:
    """It needs two thirds of a slice, and gets it when it wants it, not when its turn has come."""
    assert in_time(policy, "of the same application", slices=2) == 1
