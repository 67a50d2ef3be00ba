"""Draws what happens in a story: requests, changes, and what goes wrong."""

from dataclasses import replace
from random import Random

from esg.core.catalog.late_requests import LateRequests
from esg.core.messages.events import (
    EVENTS,
    ApplicationRegistered,
    ApplicationRetired,
    RequestArrived,
    RequestWanted,
    StageSpec,
)
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import ms
from tests.simulation.faults.fault_injection import Luck, Slowness
from tests.simulation.faults.schedule import (
    ApplicationChanges,
    Cancellation,
    ClientLeaves,
    ClockJumps,
    ControllerCrashes,
    DataExpires,
    EventPoisoned,
    Fault,
    GatewayLinkBreaks,
    NodeCrashes,
    NodeLeaves,
    NodeReports,
    RequestComes,
    SliceFails,
    StreamBreaks,
    StreamStalls,
)
from tests.support.small_catalog import SMALL

SPAN_US = ms(1500)
"""When the last request arrives, and the last fault begins."""

APPLICATIONS = (*SMALL.applications, "fresh")
CHAINS = (("resize",), ("detect", "label"), ("resize", "depth", "label"))


def through_two_gateways(seed: int, faults: list[Fault]) -> list[Fault]:
    """In some stories, clients of another gateway ask for the same requests, and any may leave."""
    chance = Random(f"{seed}:gateways")
    if chance.random() < 0.5:
        return faults
    more: list[Fault] = []
    for index, fault in enumerate(faults):
        if isinstance(fault, GatewayLinkBreaks):
            faults[index] = replace(fault, gateway=chance.choice(("g0", "g1")))
        if not isinstance(fault, RequestComes):
            continue
        both = [fault]
        if chance.random() < 0.5:
            at_us, later = fault.at_us + chance.randrange(ms(50)), chance.random() < 0.3
            both.append(replace(fault, gateway="g1", at_us=at_us, later=later))
        more += both[1:]
        for comes in both:
            if chance.random() < 0.4:
                at_us = comes.at_us + chance.randrange(ms(200))
                name = comes.event.request
                more.append(ClientLeaves(at_us=at_us, request=name, gateway=comes.gateway))
    return faults + more


class Teller:
    """Draws what happens."""

    def __init__(self, chance: Random, nodes: tuple[str, ...], slices: int) -> None:
        self._chance = chance
        self._nodes = nodes
        self._slices = slices

    def all(self) -> list[Fault]:
        kinds = (
            self._crashes,
            self._leaves,
            self._slice_failures,
            self._breaks,
            self._stalls,
            self._gateway_breaks,
            self._controller_crashes,
            self._clock_jumps,
            self._expiries,
            self._reports,
            self._changes,
        )
        faults = self._requests()
        for kind in kinds:
            if self._chance.random() < 0.35:
                for _ in range(self._chance.randint(1, 4)):
                    faults.append(kind())
        return faults

    def settings(self) -> SchedulerSettings:
        chance = self._chance
        return SchedulerSettings(
            max_attempts=chance.choice((1, 3, 3, 5)),
            prewarm=chance.random() < 0.8,
            follow_profiles=chance.random() < 0.5,
            max_wait_us=chance.choice((0, 0, ms(200))),
            max_waiting=chance.choice((0, 0, 2, 8)),
            max_waiting_in_all=chance.choice((0, 0, 6)),
            fair_quantum_us=chance.choice((0, ms(50), ms(1000))),
        )

    def luck(self) -> Luck:
        chance = self._chance
        slow = []
        if chance.random() < 0.3:
            begin_us = self._when()
            slow.append(
                Slowness(
                    invoker=self._node(),
                    from_us=begin_us,
                    until_us=begin_us + self._while(1000),
                    factor=chance.choice((2, 5, 20)),
                )
            )
        return Luck(
            task_failures=chance.choice((0.0, 0.0, 0.03, 0.15)),
            job_failures=chance.choice((0.0, 0.0, 0.0, 0.1)),
            load_failures=chance.choice((0.0, 0.0, 0.1, 0.4)),
            unloadable=chance.choice(((), (), (), (), (), ("label",), ("detect",))),
            slow=tuple(slow),
            invalid_inputs=chance.choice((0.0, 0.0, 0.0, 0.1)),
        )

    def _requests(self) -> list[Fault]:
        """Some come one by one, some in a burst, and some are cancelled a little later."""
        chance = self._chance
        names = [f"r{n}" for n in range(chance.choice((5, 15, 30)))]
        wanted = chance.sample(sorted(SMALL.applications), chance.randint(1, 3))
        wanted += ["fresh"] * (chance.random() < 0.2)
        clients = chance.choice((("",), ("alice", "bob"), ("", "alice", "bob", "carol")))
        cancelled = chance.choice((0.0, 0.1, 0.3))
        burst_us = self._when() if chance.random() < 0.3 else None
        faults: list[Fault] = []
        for name in names:
            at_us = burst_us if burst_us is not None and chance.random() < 0.7 else self._when()
            event = RequestArrived(
                request=name,
                application=chance.choice(wanted),
                slo_us=ms(2000) if chance.random() < 0.2 else None,
                all_stages=chance.random() < 0.1,
                client=chance.choice(clients),
            )
            faults.append(RequestComes(at_us=at_us, event=event))
            if chance.random() < cancelled:
                faults.append(Cancellation(at_us=at_us + self._while(400), request=name))
        return faults

    def _when(self) -> int:
        return self._chance.randrange(SPAN_US)

    def _while(self, at_most_ms: int) -> int:
        return self._chance.randrange(1, ms(at_most_ms))

    def _node(self) -> str:
        return self._chance.choice(self._nodes)

    def _crashes(self) -> Fault:
        noticed = self._chance.random() < 0.7
        return NodeCrashes(
            at_us=self._when(), node=self._node(), for_us=self._while(600), noticed=noticed
        )

    def _leaves(self) -> Fault:
        return NodeLeaves(
            at_us=self._when(),
            node=self._node(),
            after_us=self._while(300),
            for_us=self._while(300),
        )

    def _slice_failures(self) -> Fault:
        return SliceFails(
            at_us=self._when(),
            node=self._node(),
            slice=self._chance.randrange(self._slices),
            for_us=self._while(800),
        )

    def _breaks(self) -> Fault:
        """Some are back at once, some in time, some too late."""
        for_us = self._while(self._chance.choice((10, 1000, 2000)))
        return StreamBreaks(at_us=self._when(), node=self._node(), for_us=for_us)

    def _stalls(self) -> Fault:
        for_us = self._while(self._chance.choice((400, 8000)))
        return StreamStalls(at_us=self._when(), node=self._node(), for_us=for_us)

    def _gateway_breaks(self) -> Fault:
        return GatewayLinkBreaks(at_us=self._when(), for_us=self._while(400))

    def _controller_crashes(self) -> Fault:
        torn = min(1.0, 2 * self._chance.random())  # half the time the machine goes on
        return ControllerCrashes(at_us=self._when(), for_us=self._while(400), torn=torn)

    def _clock_jumps(self) -> Fault:
        return ClockJumps(at_us=self._when(), by_us=self._chance.randrange(-ms(500), ms(500)))

    def _expiries(self) -> Fault:
        return DataExpires(at_us=self._when())

    def _reports(self) -> Fault:
        return NodeReports(at_us=self._when(), node=self._node())

    def _changes(self) -> Fault:
        chance, at_us = self._chance, self._when()
        name = chance.choice(APPLICATIONS)
        if chance.random() < 0.3:
            return ApplicationChanges(at_us=at_us, event=ApplicationRetired(application=name))
        chain = chance.choice(CHAINS)
        stages = tuple(
            StageSpec(name=function, function=function, after=chain[:index][-1:])
            for index, function in enumerate(chain)
        )
        event = ApplicationRegistered(
            application=name, stages=stages, late_requests=chance.choice(tuple(LateRequests))
        )
        return ApplicationChanges(at_us=at_us, event=event)


def poison(seed: int) -> list[Fault]:
    """Events at which the scheduler fails: in some stories none, in others a few."""
    chance = Random(f"{seed}:poison")
    count = chance.randint(1, 4) if chance.random() < 0.35 else 0
    # Who asks for a request that is there would be refused alone, and not ask again: no story
    kinds = [kind.__name__ for kind in EVENTS if kind is not RequestWanted]
    return [
        EventPoisoned(at_us=chance.randrange(SPAN_US), kind=chance.choice(kinds))
        for _ in range(count)
    ]
