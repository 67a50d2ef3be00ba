"""What the shell around the scheduler remembers, as plain values: for a segment's snapshot.

Who follows a request is not part of it: gateways that come back say so again.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable

from esg.controller.request_log import AnsweredRequest, RequestRecord
from esg.core.messages.codec import Message
from esg.core.messages.commands import StartTask


class UnderWay(Message, frozen=True, kw_only=True):
    """A request that was accepted and is not answered. Its content_hash is in hexadecimal."""

    application: str
    content_hash: str
    fetched_later: bool

    @staticmethod
    def of(record: RequestRecord) -> "UnderWay":
        return UnderWay(
            application=record.application,
            content_hash=record.content_hash.hex(),
            fetched_later=record.fetched_later,
        )

    def record(self, arrived_us: int) -> RequestRecord:
        content_hash = bytes.fromhex(self.content_hash)
        return RequestRecord(
            self.application, content_hash, self.fetched_later, arrived_us=arrived_us
        )


class EndedRequest(Message, frozen=True, kw_only=True):
    """A request that was answered. Its result is a message in base64."""

    request: str
    application: str
    content_hash: str
    fetched_later: bool
    answered_us: int
    result: str

    @staticmethod
    def of(request: str, answered: AnsweredRequest, *, fetched_later: bool) -> "EndedRequest":
        return EndedRequest(
            request=request,
            application=answered.application,
            content_hash=answered.content_hash.hex(),
            fetched_later=fetched_later,
            answered_us=answered.answered_us,
            result=b64encode(answered.written).decode(),
        )

    def answered(self) -> AnsweredRequest:
        content_hash = bytes.fromhex(self.content_hash)
        return AnsweredRequest(
            self.application, content_hash, self.answered_us, b64decode(self.result)
        )


class ShellSnapshot(Message, frozen=True, kw_only=True):
    """`orders` are those of the tasks that run; `sessions` those of the invokers' processes."""

    under_way: dict[str, UnderWay]
    ended: tuple[EndedRequest, ...]
    orders: tuple[StartTask, ...]
    sessions: dict[str, str]


NOTHING = ShellSnapshot(under_way={}, ended=(), orders=(), sessions={})


def ended_rows(answered: Iterable[tuple[str, AnsweredRequest, bool]]) -> tuple[EndedRequest, ...]:
    return tuple(
        EndedRequest.of(request, item, fetched_later=later) for request, item, later in answered
    )
