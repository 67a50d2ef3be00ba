"""A gateway's questions about one request: what was asked, what was answered, what is asked again.

Submissions and follows are questions: the controller accepts or refuses each, in the order in which
they were asked on one link. That all clients here have left, or that one has cancelled the request,
is none; it is said again whenever a question has been accepted, as it may have been lost with a
link. And whoever asks after all have left says so by a question.

When a link breaks, the next one asks again what was not answered. A request about which no question
is open is followed anew, from its beginning, so that news that were lost come again.
"""

from collections import deque
from enum import Enum, auto
from typing import Generic, TypeVar

Q = TypeVar("Q")


class RefusalScope(Enum):
    """What a refusal is about."""

    QUESTION = auto()
    """Nobody knew the request when it was asked about, but it has been submitted since."""
    SUBMISSION = auto()
    """The id is taken. Those who ask about the request that has it are not concerned."""
    REQUEST = auto()
    """There is no such request, or none any more."""


class Inquiry(Generic[Q]):
    """The questions about one request. Once `origin` is accepted, the controller knows it."""

    def __init__(self, origin: Q, *, submitted: bool) -> None:
        self.origin = origin
        self.submission = origin if submitted else None
        self.watching = None if submitted else origin
        """Once it is accepted, all stages are heard of."""
        self.open = deque((origin,))
        self.left = False
        """Whether the controller was told that nobody waits here any more."""
        self.cancelled = False

    def ask(self, question: Q) -> Q:
        """One more question; if there is no link, it is asked on the next one."""
        self.open.append(question)
        self.left = False
        return question

    def submit_again(self, question: Q) -> Q:
        """A submission of what was submitted before, which asks for more than that did."""
        self.origin = self.submission = self.ask(question)
        return question

    def accepted(self) -> Q | None:
        """The controller has accepted something: the oldest question that is open."""
        return self.open.popleft() if self.open else None

    def refused(self) -> tuple[Q, RefusalScope]:
        """The controller has refused something: the oldest question that is open, or else what was
        accepted before."""
        question = self.open.popleft() if self.open else self.origin
        if self.open:
            self.origin, self.watching = self.open[0], None
            return question, RefusalScope.QUESTION
        if question is self.submission and question is not self.origin:
            self.submission = None
            return question, RefusalScope.SUBMISSION
        return question, RefusalScope.REQUEST

    def again(self, follow: Q | None) -> tuple[Q, ...]:
        """What is to be asked on a new link. `follow` is the question whether the request is still
        there; None if it has ended."""
        if not self.open and follow is not None:
            self.watching = self.ask(follow)
        return tuple(self.open)
