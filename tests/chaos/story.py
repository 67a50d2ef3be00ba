"""What the journal of a mesh says happened to each request."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from emulator.history import read_segments, replay_strictly
from esg.catalog import Catalog
from esg.commands import AnswerRequest, Command, RefuseRequest, StartTask
from esg.events import Event, RequestArrived


@dataclass
class Story:
    """How often each request came, was answered and refused, and each of its jobs was started."""

    arrived: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    started: Counter[tuple[str, str]] = field(default_factory=Counter)
    segments: int = 0

    @property
    def repeated_jobs(self) -> int:
        return sum(count - 1 for count in self.started.values())

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, RequestArrived):
            self.arrived[event.request] += 1
        for command in commands:
            match command:
                case AnswerRequest():
                    self.answered[command.request] += 1
                case RefuseRequest():
                    self.refused[command.request] += 1
                case StartTask():
                    for job in command.jobs:
                        self.started[job.request, command.stage] += 1
                case _:
                    pass


def story_of(journal: Path, catalog: Catalog) -> Story:
    """Replayed strictly: every order as it was, every snapshot where the one before it led."""
    story = Story(segments=sum(1 for _ in read_segments(journal)))
    replay_strictly(journal, catalog, {}, story.observe)
    return story
