"""Whoever watches a simulated mesh: sees what happens, and ends it by raising what is wrong."""

from esg.core.messages.commands import Command
from esg.core.messages.events import Event, InvokerNews
from esg.core.scheduler.scheduler import Scheduler


class MeshObserver:
    """Sees everything and says nothing. Events are the same objects wherever they are seen."""

    def handled(self, scheduler: Scheduler, event: Event, commands: list[Command]) -> None:
        """A scheduler has learnt a fact, which is not on disk yet."""

    def on_disk(self, event: Event) -> None:
        """A fact is in the journal."""

    def put_aside(self, event: Event) -> None:
        """The scheduler failed at a fact, now or before: it is not in the journal, and will never
        be."""

    def controller_started(self) -> None:
        """Another process goes on with what the journal has."""

    def said(self, node: str, event: InvokerNews, *, numbered: bool) -> None:
        """A node has news, for the first time."""

    def acknowledged(self, node: str, event: InvokerNews) -> None:
        """A node has forgotten a report, as the controller has it."""

    def started_afresh(self, node: str) -> None: ...
