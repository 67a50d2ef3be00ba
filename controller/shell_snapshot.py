"""What the shell around the scheduler remembers, as plain values: for a segment's snapshot.

Who follows a request is not part of it: gateways that come back say so again.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable

from esg.controller.request_log import Answered, Record
from esg.core.messages.codec import Message
from esg.core.messages.commands import StartTask


class UnderWay(Message, frozen=True, kw_only=True):
    """A request that was accepted and is not answered. Its fingerprint is in hexadecimal."""

    application: str
    fingerprint: str
    fetched_later: bool

    @staticmethod
    def of(record: Record) -> "UnderWay":
        return UnderWay(
            application=record.application,
            fingerprint=record.fingerprint.hex(),
            fetched_later=record.fetched_later,
        )

    def record(self, arrived_us: int) -> Record:
        fingerprint = bytes.fromhex(self.fingerprint)
        return Record(self.application, fingerprint, self.fetched_later, arrived_us=arrived_us)


class Ended(Message, frozen=True, kw_only=True):
    """A request that was answered. Its result is a message in base64."""

    request: str
    application: str
    fingerprint: str
    fetched_later: bool
    answered_us: int
    result: str

    @staticmethod
    def of(request: str, answered: Answered, *, fetched_later: bool) -> "Ended":
        return Ended(
            request=request,
            application=answered.application,
            fingerprint=answered.fingerprint.hex(),
            fetched_later=fetched_later,
            answered_us=answered.answered_us,
            result=b64encode(answered.written).decode(),
        )

    def answered(self) -> Answered:
        fingerprint = bytes.fromhex(self.fingerprint)
        return Answered(self.application, fingerprint, self.answered_us, b64decode(self.result))


class Memory(Message, frozen=True, kw_only=True):
    """`orders` are those of the tasks that run; `sessions` those of the invokers' processes."""

    under_way: dict[str, UnderWay]
    ended: tuple[Ended, ...]
    orders: tuple[StartTask, ...]
    sessions: dict[str, str]


NOTHING = Memory(under_way={}, ended=(), orders=(), sessions={})


def ended_rows(answered: Iterable[tuple[str, Answered, bool]]) -> tuple[Ended, ...]:
    return tuple(Ended.of(request, item, fetched_later=later) for request, item, later in answered)
