"""Those who ask for something, through a gateway, and do not give up before they are answered.

What the gateway asks again when its link to the controller was broken is decided as it is live, by
an `Inquiry` for each request. The controller's end is here in short: it accepts, refuses and tells
results on the link on which it was asked, and knows what it has answered. Operators who change
applications simply try again.
"""

from dataclasses import dataclass

from esg.core.messages.commands import AdmitRequest, Command, RefusalKind, RefuseRequest
from esg.core.messages.events import ApplicationChange, Event, RequestArrived, RequestCancelled
from esg.core.sessions.inquiry import Inquiry, RefusalScope
from esg.emulator.world import World
from esg.errors import Bug
from tests.simulation.faults.controller import Answer, Controller


@dataclass(frozen=True, slots=True, eq=False)
class GatewayQuestion:
    """A submission, or the question what has become of it."""

    request: RequestArrived
    is_submission: bool = True


class Clients:
    """`answers` has what they were told; what they still wait for is asked for again."""

    def __init__(self, world: World, controller: Controller) -> None:
        self.answers: dict[str, Answer] = {}
        self.answered_us: dict[str, int] = {}
        self._world = world
        self._controller = controller
        self._inquiries: dict[str, Inquiry[GatewayQuestion]] = {}
        self._changes: list[ApplicationChange] = []
        self._linked = True
        self._cut_until_us = 0
        self._under_way: set[str] = set()  # submitted to the controller, and not answered on disk
        self._followed: set[str] = set()  # of what the controller will tell the end on this link

    def ask(self, event: RequestArrived | RequestCancelled | ApplicationChange) -> None:
        """Now, and again if need be."""
        match event:
            case RequestArrived():
                inquiry = Inquiry(GatewayQuestion(event), submitted=True)
                self._inquiries[event.request] = inquiry
                self._put(inquiry.origin)
            case RequestCancelled():
                if event.request in self._inquiries:
                    self._inquiries[event.request].cancelled = True
                    self._cancel(event.request)
            case _:
                self._changes.append(event)
                self._tell(event)

    def cut(self, for_us: int) -> None:
        """The link to the controller breaks, and for a while there is no other one."""
        self._cut_until_us = max(self._cut_until_us, self._world.now_us + for_us)
        self._unlink()
        self._world.at(self._cut_until_us, self._link)

    def controller_ended(self) -> None:
        self._unlink()

    def controller_started(self) -> None:
        self._under_way = set(self._controller.running.state.requests)
        for change in self._changes:
            self._tell(change)
        self._link()

    def perform(self, event: Event, commands: list[Command]) -> None:
        """The controller has this event on disk: its answers leave."""
        if event in self._changes:
            self._changes.remove(event)
        for command in commands:
            if isinstance(command, AdmitRequest):
                self._accepted(command.request, repeated=False)
            elif isinstance(command, Answer):
                self._under_way.discard(command.request)
                if command.request in self._followed:
                    self._hear(command)

    def put_aside(self, event: Event) -> None:
        """The scheduler failed at it. Who asked hears an error, and does not ask again; a request
        whose cancellation it was goes on."""
        if event in self._changes:
            self._changes.remove(event)
        if isinstance(event, RequestArrived):
            self._under_way.discard(event.request)
            if event.request in self._followed:
                self._hear(
                    RefuseRequest(
                        request=event.request,
                        application=event.application,
                        kind=RefusalKind.INVALID,
                        reason="put aside",
                    )
                )

    def _link(self) -> None:
        if self._linked or not self._is_up():
            return
        self._linked = True
        for inquiry in list(self._inquiries.values()):
            follow = GatewayQuestion(inquiry.origin.request, is_submission=False)
            for question in inquiry.again(follow):
                self._put(question)

    def _unlink(self) -> None:
        self._linked = False
        self._followed.clear()

    def _is_up(self) -> bool:
        there = self._controller.scheduler is not None
        return there and self._world.now_us >= self._cut_until_us

    def _tell(self, event: Event) -> None:
        self._world.tell(self._world.now_us, event)

    # ---- the controller's end

    def _put(self, question: GatewayQuestion) -> None:
        """If there is a link; otherwise it is asked on the next one."""
        name, known = question.request.request, self._controller.answers
        if not self._linked:
            return
        self._followed.add(name)
        if name in known:
            self._accepted(name, repeated=True)
            self._hear(known[name])
        elif name in self._under_way:
            self._accepted(name, repeated=True)
        elif question.is_submission:
            self._under_way.add(name)
            self._tell(question.request)
        else:
            self._refused(name)

    def _cancel(self, name: str) -> None:
        if self._linked and name in self._under_way:
            self._tell(RequestCancelled(request=name))

    # ---- the gateway's end

    def _accepted(self, name: str, *, repeated: bool) -> None:
        if name in self._followed and name in self._inquiries:
            self._inquiries[name].accepted(repeated=repeated)
            if self._inquiries[name].cancelled:
                self._cancel(name)

    def _refused(self, name: str) -> None:
        """The controller has forgotten a request: its client submits it again."""
        question, scope = self._inquiries[name].refused()
        if scope is not RefusalScope.REQUEST:
            raise Bug(f"{name} was refused while something else was asked")
        cancelled = self._inquiries[name].cancelled
        self.ask(question.request)
        self._inquiries[name].cancelled = cancelled

    def _hear(self, answer: Answer) -> None:
        if self.answers.get(answer.request, answer) != answer:
            raise Bug(f"{answer.request} was told two different things")
        if answer.request not in self._inquiries and answer.request not in self.answers:
            raise Bug(f"{answer.request} was answered and never asked for")
        self.answers.setdefault(answer.request, answer)
        self.answered_us.setdefault(answer.request, self._world.now_us)
        self._inquiries.pop(answer.request, None)
