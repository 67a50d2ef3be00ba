"""The controller at work: what happens goes to the scheduler, what follows from it to the peers."""

import asyncio
from collections.abc import Callable
from functools import partial

from esg.controller.corrector import Corrector
from esg.controller.driver import Driver, EventLog
from esg.controller.durability.dead_letters import DeadLetters
from esg.controller.effects import (
    ConfirmJoin,
    Effect,
    TellAccepted,
    TellAnswered,
    TellPayloadLost,
    TellProgress,
)
from esg.controller.invoker_streams import InvokerStreams
from esg.controller.metrics import MeshMetrics
from esg.controller.requests.gateway_streams import GatewayStreams
from esg.controller.shell import NOTHING, ControllerShell, ShellSnapshot
from esg.core.journal.format import Memo, functions_digest
from esg.core.messages.commands import Command, CorrectProfiles, DiscardData, RefuseRequest
from esg.core.messages.events import Event
from esg.core.messages.task_order import TaskOrder
from esg.core.scheduler.scheduler import Scheduler
from esg.runtime.metrics_page import FORGET_S
from esg.runtime.settings import ControllerSettings


class LiveController:
    """Performs the effects of a shell, which may go on with what another process remembered. Has to
    be made while a loop runs."""

    def __init__(
        self,
        scheduler: Scheduler,
        settings: ControllerSettings,
        journal: EventLog | None,
        clock_us: Callable[[], int],
        memory: ShellSnapshot = NOTHING,
        dead_letters: DeadLetters | None = None,
        refusing: Callable[[], str] = lambda: "",
    ) -> None:
        self.refusing = refusing
        """Why nothing new is taken, if that is so; what is under way goes on."""
        self.shell = ControllerShell(settings, memory)
        self.driver = Driver(
            scheduler, journal, self._perform, clock_us=clock_us, dead_letters=dead_letters
        )
        self.began_us = self.driver.now_us  # the clock goes on where an earlier process left it
        self.gateways = GatewayStreams(self.driver, self.shell, refusing)
        functions = functions_digest(scheduler.whole_catalog)
        self.invokers = InvokerStreams(self.driver, functions, settings)
        self.corrector = Corrector(self.driver)
        self.metrics = MeshMetrics(
            lambda: self.scheduler if self.driver.whole.is_set() else None,
            self.shell.counters,
            dead_letters,
            refusing,
            lambda: 0 if journal is None else journal.syncs,
        )
        self._idle = asyncio.Event()

    @property
    def scheduler(self) -> Scheduler:
        """The one that there is now: it may be built again."""
        return self.driver.scheduler

    def start(self) -> None:
        """Go on where another process ended, with the invokers that it had."""
        self.invokers.expect(self.shell.sessions)
        self.driver.start()

    async def watch(self) -> None:
        """Forget applications that are gone; runs as long as the controller does."""
        while True:
            await asyncio.sleep(FORGET_S)
            await self.driver.whole.wait()
            self.forget_gone()

    async def finish(self) -> None:
        """Take nothing new, and wait until everyone is answered: the scheduler is done with a
        request before its answer is on disk, and does not know yet of one that came just now."""
        self.gateways.draining = True
        if not self.gateways.idle:
            await self._idle.wait()
        await self.driver.rest()

    def forget_gone(self) -> None:
        """Forget how applications fared that were deleted, once their last request is answered."""
        under_way = {
            name
            for client in self.scheduler.state.clients.values()
            for name, traffic in client.traffic.items()
            if traffic.under_way
        }
        self.shell.counters.forget_gone(under_way.union(self.scheduler.applications))

    def _perform(
        self, now_us: int, event: Event, memo: Memo | None, commands: list[Command]
    ) -> None:
        for effect in self.shell.apply(now_us, event, memo, commands):
            if not _waits(effect):
                self._perform_one(effect)
            else:
                urgent = not isinstance(effect, DiscardData)
                self.driver.when_durable(partial(self._perform_one, effect), urgent=urgent)
        if self.gateways.draining and self.gateways.idle:
            self._idle.set()

    def _perform_one(self, effect: Effect) -> None:
        match effect:
            case ConfirmJoin():
                self.invokers.joined(effect.event)
            case TellAccepted():
                self.gateways.accepted(effect.request, effect.record)
            case TellProgress():
                self.gateways.progressed(effect)
            case TellPayloadLost():
                self.gateways.payload_lost(effect.request)
            case TellAnswered():
                self.gateways.answered(effect.answer, effect.result, effect.outputs)
            case RefuseRequest():
                self.gateways.refused(effect)
            case CorrectProfiles():
                self.corrector.correct(effect.corrections)
            case TaskOrder():
                self.invokers.send(self.gateways.payloads.attached(effect))
            case _:
                self.invokers.send(effect)


def _waits(effect: Effect) -> bool:
    """Whether an effect cannot be taken back, should this machine fail before the journal is on
    disk. A client that waits for its request would submit it again; one that will fetch it later
    would not."""
    match effect:
        case TellAccepted():
            return effect.record.fetched_later
        case TellAnswered() | DiscardData():
            return True
        case _:
            return False
