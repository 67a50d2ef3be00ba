"""What the sessions between nodes and controller promise, whatever breaks.

- A node forgets a report only when it is in the controller's journal, or put aside.
- One process of the controller takes no report twice.
- A node that was given up says nothing of its earlier life, and brings nothing from it.
- In the end every report is in the journal or put aside, apart from those of a life that was
  given up.
"""

from dataclasses import dataclass

from esg.core.messages.commands import Command
from esg.core.messages.events import Event, InvokerLost, InvokerNews
from esg.core.scheduler.scheduler import Scheduler
from tests.simulation.faults.observer import MeshObserver


@dataclass(slots=True, eq=False)
class Said:
    """Some news of a node, and in which of its lives it had them: another one begins whenever it
    starts afresh."""

    node: str
    event: InvokerNews
    life: int
    numbered: bool
    taken: bool = False  # by the present process of the controller
    on_disk: bool = False


class SessionPromises(MeshObserver):
    """Checks them as the story goes on. News are told apart by being the same object."""

    def __init__(self) -> None:
        self._said: dict[int, Said] = {}
        self._lives: dict[str, int] = {}
        self._first_life: dict[str, int] = {}  # that the controller may still hear of

    def said(self, node: str, event: InvokerNews, *, numbered: bool) -> None:
        self._said[id(event)] = Said(node, event, self._lives.get(node, 0), numbered)

    def started_afresh(self, node: str) -> None:
        self._lives[node] = self._lives.get(node, 0) + 1

    def handled(self, scheduler: Scheduler, event: Event, commands: list[Command]) -> None:
        if isinstance(event, InvokerLost):
            self._first_life[event.invoker] = self._lives.get(event.invoker, 0) + 1
        said = self._said.get(id(event))
        if said is None:
            return
        assert said.life >= self._first_life.get(said.node, 0), (
            f"{said.node} was given up, and tells of the time before"
        )
        assert not (said.numbered and said.taken), f"{said.node} is heard twice: {event}"
        said.taken = True

    def on_disk(self, event: Event) -> None:
        if id(event) in self._said:
            self._said[id(event)].on_disk = True

    def put_aside(self, event: Event) -> None:
        """It is among the dead letters, and need not be told again."""
        if id(event) in self._said:
            self._said[id(event)].taken = self._said[id(event)].on_disk = True

    def acknowledged(self, node: str, event: InvokerNews) -> None:
        assert self._said[id(event)].on_disk, f"{node} has forgotten what is nowhere: {event}"

    def controller_started(self) -> None:
        """What it knows is in its journal; whom the one before it had given up, it may not know."""
        self._first_life.clear()
        for said in self._said.values():
            said.taken = False

    def check_the_end(self) -> None:
        for said in self._said.values():
            if said.numbered and said.life == self._lives.get(said.node, 0):
                assert said.on_disk, f"{said.node} was never heard: {said.event}"
