"""Those who ask for something, through gateways, and do not give up before they are answered.

What a gateway asks again when its link to the controller was broken is decided as it is live, by an
`Inquiry` for each request. Clients may leave; their gateway says so, and still hears of the end.
Operators who change applications simply try again.
"""

from dataclasses import dataclass

from esg.core.messages.commands import Command
from esg.core.messages.events import ApplicationChange, Event, RequestArrived
from esg.core.sessions.inquiry import Inquiry, RefusalScope
from esg.emulator.world import World
from esg.errors import Bug
from tests.simulation.faults.controller import Answer, Controller
from tests.simulation.faults.gateway_door import GatewayDoor


@dataclass(frozen=True, slots=True, eq=False)
class GatewayQuestion:
    """A submission, or the question what has become of it."""

    request: RequestArrived
    is_submission: bool = True
    later: bool = False


class Gateway:
    """One gateway. `answers` has what its clients were told; what they still wait for is asked for
    again. `gone` are the requests whose clients have left."""

    def __init__(self, session: str, world: World, door: GatewayDoor) -> None:
        self.session = session
        self.links = 1
        self.answers: dict[str, Answer] = {}
        self.answered_us: dict[str, int] = {}
        self.gone: set[str] = set()
        self._promised: set[str] = set()  # to clients who do not wait
        self._world = world
        self._door = door
        self._inquiries: dict[str, Inquiry[GatewayQuestion]] = {}
        self._linked = True
        self._cut_until_us = 0

    def submit(self, request: RequestArrived, *, later: bool) -> None:
        inquiry = Inquiry(GatewayQuestion(request, later=later), submitted=True)
        self._inquiries[request.request] = inquiry
        self._put(inquiry.origin)

    def cancel(self, request: str) -> None:
        if request in self._inquiries:
            self._inquiries[request].cancelled = True
            self._say_again(request)

    def leave(self, request: str) -> None:
        """Its client has gone. Nobody waits for what is to be fetched later: nobody leaves it."""
        inquiry = self._inquiries.get(request)
        if inquiry is not None and not inquiry.origin.later:
            self.gone.add(request)
            self._say_again(request)

    def cut(self, for_us: int) -> None:
        """The link to the controller breaks, and for a while there is no other one."""
        self._cut_until_us = max(self._cut_until_us, self._world.now_us + for_us)
        self.unlink()
        self._world.at(self._cut_until_us, self.link)

    def unlink(self) -> None:
        self._linked = False
        self.links += 1
        self._door.forget(self)

    def link(self) -> None:
        if self._linked or not self._door.is_open or self._world.now_us < self._cut_until_us:
            return
        self._linked = True
        for inquiry in list(self._inquiries.values()):
            follow = GatewayQuestion(
                inquiry.origin.request, is_submission=False, later=inquiry.origin.later
            )
            for question in inquiry.again(follow):
                self._put(question)

    def accepted(self, request: str) -> None:
        if request in self._inquiries:
            self._inquiries[request].accepted()
            if self._inquiries[request].origin.later:
                self._promised.add(request)
            self._say_again(request)

    def refused(self, request: str) -> None:
        """The controller has forgotten a request: its client, who waits, submits it again."""
        if request in self._promised:
            raise Bug(f"{request} was accepted for good, and forgotten")
        question, scope = self._inquiries[request].refused()
        if scope is not RefusalScope.REQUEST:
            raise Bug(f"{request} was refused while something else was asked")
        cancelled = self._inquiries[request].cancelled
        self.submit(question.request, later=question.later)
        self._inquiries[request].cancelled = cancelled

    def hear(self, answer: Answer) -> None:
        name = answer.request
        if self.answers.get(name, answer) != answer:
            raise Bug(f"{name} was told two different things")
        if name not in self._inquiries and name not in self.answers:
            raise Bug(f"{name} was answered and never asked for")
        self.answers.setdefault(name, answer)
        self.answered_us.setdefault(name, self._world.now_us)
        self._inquiries.pop(name, None)

    def _put(self, question: GatewayQuestion) -> None:
        """If there is a link; otherwise it is asked on the next one."""
        if self._linked:
            self._door.put(self, question)

    def _say_again(self, request: str) -> None:
        """What is no question, and may have been lost with a link."""
        inquiry = self._inquiries[request]
        if not self._linked:
            return
        if inquiry.cancelled:
            self._door.cancel(request)
        if request in self.gone and not inquiry.open:
            inquiry.left = True
            self._door.leave(self, request)


class Clients:
    """The clients of all gateways, and operators."""

    def __init__(self, world: World, controller: Controller) -> None:
        self._world = world
        self._controller = controller
        self._changes: list[ApplicationChange] = []
        self._door = GatewayDoor(world, controller)
        self.gateways = {name: Gateway(name, world, self._door) for name in ("g0", "g1")}

    def change(self, event: ApplicationChange) -> None:
        """Now, and again if need be."""
        self._changes.append(event)
        self._world.tell(self._world.now_us, event)

    def controller_ended(self) -> None:
        for gateway in self.gateways.values():
            gateway.unlink()

    def controller_started(self) -> None:
        self._door.open()
        for change in self._changes:
            self._world.tell(self._world.now_us, change)
        for gateway in self.gateways.values():
            gateway.link()

    def on_disk(self, event: Event) -> None:
        """The controller has this event on disk: what it was asked for is done for good."""
        if event in self._changes:
            self._changes.remove(event)

    def hear(self, commands: list[Command]) -> None:
        """What follows from an event for those who ask."""
        self._door.perform(commands)

    def put_aside(self, event: Event) -> None:
        """The scheduler failed at it. Who asked hears an error, and does not ask again; a request
        whose cancellation it was goes on."""
        if event in self._changes:
            self._changes.remove(event)
        if isinstance(event, RequestArrived):
            self._door.put_aside(event)
