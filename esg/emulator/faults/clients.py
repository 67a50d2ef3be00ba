"""Those who ask for something, and do not give up before they are answered.

A request that was not answered when the controller's process ended is asked for again when there
is one, under the same name: the controller knows it, or has answered it meanwhile, or takes it for
new. So do operators with applications.
"""

from esg.core.messages.events import ApplicationChange, Event, RequestArrived, RequestCancelled
from esg.emulator.faults.controller import Answer, Controller
from esg.emulator.world import World
from esg.errors import Bug


class Clients:
    """`answers` has what they were told, `asked` what they still wait for."""

    def __init__(self, world: World, controller: Controller) -> None:
        self.answers: dict[str, Answer] = {}
        self.answered_us: dict[str, int] = {}
        self.asked: dict[str, RequestArrived] = {}
        self._cancelled: set[str] = set()
        self._changes: list[ApplicationChange] = []
        self._world = world
        self._controller = controller

    def ask(self, event: RequestArrived | RequestCancelled | ApplicationChange) -> None:
        """Now, and again after a restart if need be."""
        match event:
            case RequestArrived():
                self.asked[event.request] = event
            case RequestCancelled():
                if event.request in self.answers:
                    return
                self._cancelled.add(event.request)
            case _:
                self._changes.append(event)
        self._tell(event)

    def durable(self, event: Event, answers: list[Answer]) -> None:
        """The controller has this event on disk: its answers arrive."""
        for answer in answers:
            self._hear(answer)
        if event in self._changes:
            self._changes.remove(event)

    def ask_again(self) -> None:
        """There is a controller again."""
        state = self._controller.running.state
        for change in self._changes:
            self._tell(change)
        for name, event in list(self.asked.items()):
            if name in self._controller.answers:
                self._hear(self._controller.answers[name])
            elif name not in state.requests:
                self._tell(event)
            if name in self._cancelled and name in self.asked:
                self._tell(RequestCancelled(request=name))

    def _tell(self, event: Event) -> None:
        self._world.tell(self._world.now_us, event)

    def _hear(self, answer: Answer) -> None:
        if self.answers.get(answer.request, answer) != answer:
            raise Bug(f"{answer.request} was told two different things")
        if answer.request not in self.asked and answer.request not in self.answers:
            raise Bug(f"{answer.request} was answered and never asked for")
        self.answers.setdefault(answer.request, answer)
        self.answered_us.setdefault(answer.request, self._world.now_us)
        self.asked.pop(answer.request, None)
