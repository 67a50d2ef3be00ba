"""The controller's door for gateways, in short.

It accepts, refuses and tells results on the link on which it was asked, and knows what it has
answered. Who waits for a request, and whose leaving cancels it, is decided as it is live, by an
`Interest`; who has asked is in the journal, as there, before they are told that it was accepted.
"""

from typing import Protocol

from esg.core.journal.format import Memo
from esg.core.messages.commands import (
    AdmitRequest,
    AnswerRequest,
    Command,
    RefusalKind,
    RefuseRequest,
)
from esg.core.messages.events import Event, RequestArrived, RequestCancelled, RequestWanted
from esg.core.messages.outcome import Outcome
from esg.core.sessions.interest import Interest, is_kept, wanted_memo, who_waits
from esg.emulator.world import Action, World
from esg.errors import Bug
from tests.simulation.faults.controller import Answer, Controller


class Asking(Protocol):
    """A gateway, as it is seen from here."""

    session: str
    links: int  # how many it has had: what was asked on an earlier one is not answered
    gone: set[str]

    def accepted(self, request: str) -> None: ...

    def refused(self, request: str) -> None: ...

    def hear(self, answer: Answer) -> None: ...


class Asked(Protocol):
    @property
    def request(self) -> RequestArrived: ...

    @property
    def is_submission(self) -> bool: ...

    @property
    def later(self) -> bool: ...


class GatewayDoor:
    """What one process of the controller knows of those who ask."""

    def __init__(self, world: World, controller: Controller) -> None:
        self._world = world
        self._controller = controller
        self._interest = Interest()
        self._undecided: dict[str, list[tuple[Asking, Asked]]] = {}
        self._under_way: set[str] = set()
        self._followers: dict[str, dict[str, Asking]] = {}
        self._cancelled: set[str] = set()  # by somebody who wanted just that

    @property
    def is_open(self) -> bool:
        return self._controller.scheduler is not None

    def open(self) -> None:
        """A process has started, with what the journal has."""
        self._under_way = set(self._controller.running.state.requests)
        self._undecided.clear()
        self._interest = Interest()
        for name in self._controller.running.state.requests:
            memos = self._controller.wanted.get(name, [])
            waiting = [session for memo in memos for session in who_waits(memo)]
            self._interest.recall(name, waiting, kept=any(map(is_kept, memos)))

    def put(self, gateway: Asking, question: Asked) -> None:
        name, known = question.request.request, self._controller.answers
        memo = wanted_memo(gateway.session, fetched_later=question.later)
        if name in known:
            gateway.accepted(name)
            gateway.hear(known[name])
        elif name in self._undecided:
            self._undecided[name].append((gateway, question))
        elif name in self._under_way:
            self._interest.ask(name, gateway.session, memo)
            link = gateway.links

            def again() -> None:
                if gateway.links == link:
                    self.put(gateway, question)

            def accepted() -> None:
                if gateway.links == link:
                    gateway.accepted(name)

            if memo in self._controller.wanted.get(name, ()):
                self._follow(name, gateway)
                self._controller.when_durable(accepted)
            else:
                self._tell(RequestWanted(request=name), memo, again)
        elif question.is_submission:
            self._undecided[name] = []
            self._follow(name, gateway)
            self._interest.ask(name, gateway.session, memo)
            self._tell(question.request, memo)
        else:
            gateway.refused(name)

    def cancel(self, name: str) -> None:
        self._cancelled.add(name)
        if name in self._under_way or name in self._undecided:
            self._tell(RequestCancelled(request=name))

    def leave(self, gateway: Asking, name: str) -> None:
        if self._interest.leave(name, gateway.session):
            self._tell(RequestCancelled(request=name))

    def forget(self, gateway: Asking) -> None:
        """Its link has ended, and whatever was asked on it."""
        for followers in self._followers.values():
            followers.pop(gateway.session, None)
        for name, asked in self._undecided.items():
            self._undecided[name] = [one for one in asked if one[0] is not gateway]

    def perform(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, AdmitRequest):
                self._admitted(command.request)
            elif isinstance(command, Answer):
                self._answered(command)

    def put_aside(self, event: RequestArrived) -> None:
        """The scheduler failed at a request: whoever asked for it hears an error."""
        self._answered(
            RefuseRequest(
                request=event.request,
                application=event.application,
                kind=RefusalKind.INVALID,
                reason="put aside",
            )
        )

    def _admitted(self, name: str) -> None:
        self._under_way.add(name)
        for gateway in list(self._followers.get(name, {}).values()):
            gateway.accepted(name)
        for gateway, question in self._undecided.pop(name, ()):
            self.put(gateway, question)

    def _answered(self, answer: Answer) -> None:
        name = answer.request
        self._under_way.discard(name)
        self._interest.end(name)
        followers = list(self._followers.pop(name, {}).values())
        followers += [gateway for gateway, _ in self._undecided.pop(name, ())]
        for gateway in followers:
            self._check(gateway, answer)
            gateway.hear(answer)

    def _check(self, gateway: Asking, answer: Answer) -> None:
        cancelled = isinstance(answer, AnswerRequest) and answer.outcome is Outcome.CANCELLED
        if cancelled and answer.request not in gateway.gone | self._cancelled:
            raise Bug(f"{answer.request} was cancelled, although {gateway.session} wants it")

    def _follow(self, name: str, gateway: Asking) -> None:
        self._followers.setdefault(name, {})[gateway.session] = gateway

    def _tell(self, event: Event, memo: Memo | None = None, then: Action = lambda: None) -> None:
        self._controller.tell(event, memo, then)
        self._world.tell(self._world.now_us, event)
