"""What is remembered of each request: that it is under way, or how it was answered.

The scheduler forgets a request once it is answered. Clients ask later, or ask again because they
are not sure to have been heard; so the answer is kept for a while. A request's id is an idempotency
key: when it comes again, it means the request that it named the first time. The memory is bounded,
in number and in time; when it is full, the client that fills most of it loses its oldest answer, so
that nobody's are pushed out by another's.

Small results that were brought along are nowhere else: they are kept with their request, and go to
whoever asks. Above `MOST_HELD_BYTES` the oldest answers lose theirs, though none in the first
moments, and none that is to be fetched later. While that is not enough, no more are asked for
(`holds_too_much`): results are stored in Redis then, as larger ones are.
"""

from collections import Counter, OrderedDict
from collections.abc import ItemsView

from msgspec import field
from msgspec.structs import replace

from esg.core.journal.format import Memo
from esg.core.messages.codec import Message
from esg.core.sessions.interest import is_kept, who_waits
from esg.runtime.security.ownership import owner_of
from esg.units import seconds

MOST_HELD_BYTES = 2 * 2**20
"""Of results. They are part of every snapshot, and the loop stands still while it is written: some
10 ms for each MB. That is twenty seconds at 1000 requests per second with 100 bytes each."""
DELIVERED_US = seconds(2)
"""What was answered so long ago is where it should be, or its client would have asked again."""

Outputs = dict[str, bytes]
"""Of a request, by stage."""


class RequestRecord(Message, frozen=True, kw_only=True):
    """A request that is under way. `content_hash` is of what was asked for; `gateways` are the
    sessions that have waited for it, whether they still do or not; `outputs` were brought along."""

    application: str
    content_hash: bytes
    fetched_later: bool = False
    arrived_us: int = 0
    gateways: tuple[str, ...] = ()
    outputs: Outputs = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether somebody may still come for its outputs when they were delivered: clients of
        several gateways know nothing of each other, and what is fetched later is fetched as often
        as wanted."""
        return self.fetched_later or len(self.gateways) > 1

    def knows(self, memo: Memo) -> bool:
        """Whether it has what this says of who wants it."""
        waiting = all(session in self.gateways for session in who_waits(memo))
        return waiting and (self.fetched_later or not is_kept(memo))


class AnsweredRequest(Message, frozen=True, kw_only=True):
    """What stays of a request: as little as possible, since there are many. `result` is a
    serialised `model.Result`; for `shared` and `outputs` see above."""

    application: str
    content_hash: bytes
    fetched_later: bool
    answered_us: int
    result: bytes
    shared: bool = False
    outputs: Outputs = field(default_factory=dict)

    def knows(self, memo: Memo) -> bool:
        """Whether it is remembered for as long as whoever asks for it wants."""
        return self.fetched_later or not is_kept(memo)


class AnswerCache:
    """Answered requests, the oldest first, up to a number and an age."""

    def __init__(self, most: int, longest_us: int) -> None:
        self._most = most
        self.longest_us = longest_us
        self.held_bytes = 0
        """Of outputs."""
        self._answers: OrderedDict[str, AnsweredRequest] = OrderedDict()
        self._with_outputs: dict[str, None] = {}  # those that have some, the oldest first
        self._of: dict[str, OrderedDict[str, None]] = {}  # those of each owner, the oldest first

    def get(self, request: str) -> AnsweredRequest | None:
        return self._answers.get(request)

    def items(self) -> ItemsView[str, AnsweredRequest]:
        return self._answers.items()

    def add(self, request: str, answered: AnsweredRequest) -> None:
        self._count_out(request)  # perhaps of one that it takes the place of
        self._answers[request] = answered
        if answered.outputs:
            self.held_bytes += _size(answered.outputs)
            self._with_outputs[request] = None
        self._of.setdefault(owner_of(request), OrderedDict())[request] = None

    def forget_old(self, now_us: int) -> None:
        while self._answers:
            request, oldest = next(iter(self._answers.items()))
            if now_us - oldest.answered_us <= self.longest_us:
                break
            self._forget(request)
        while len(self._answers) > self._most:
            fullest = max(self._of.values(), key=len)
            self._forget(next(iter(fullest)))

    def drop_outputs(self, excess_bytes: int, until_us: int) -> None:
        """Forget at least so many bytes, as far as they are of answers up to this time."""
        most_bytes = self.held_bytes - excess_bytes
        while self.held_bytes > most_bytes and self._with_outputs:
            request = next(iter(self._with_outputs))
            answered = self._answers[request]
            if answered.answered_us > until_us:
                break
            self._count_out(request)
            self._answers[request] = replace(answered, outputs={})

    def pop(self, request: str) -> AnsweredRequest | None:
        """Take an answer out, if it is there."""
        answered = self._answers.get(request)
        if answered is not None:
            self._forget(request)
        return answered

    def _count_out(self, request: str) -> None:
        if request in self._with_outputs:
            del self._with_outputs[request]
            self.held_bytes -= _size(self._answers[request].outputs)

    def _forget(self, request: str) -> None:
        self._count_out(request)
        del self._answers[request]
        owner = owner_of(request)
        del self._of[owner][request]
        if not self._of[owner]:
            del self._of[owner]


class RequestLog:
    """Requests by id. Answers that nobody waited for are remembered for longer."""

    def __init__(self, *, remembered: int, fetched_later_us: int, waited_for_us: int) -> None:
        self.under_way: dict[str, RequestRecord] = {}
        self._under_way_of: Counter[str] = Counter()
        self._under_way_bytes = 0  # of their outputs
        self._fetched_later = AnswerCache(remembered, fetched_later_us)
        self._waited_for = AnswerCache(remembered, waited_for_us)

    def begin(self, request: str, record: RequestRecord) -> None:
        """A request is under way."""
        if request not in self.under_way:
            self._under_way_of[owner_of(request)] += 1
        self._put(request, record)

    def under_way_of(self, owner: str) -> int:
        """How many requests of a client are under way."""
        return self._under_way_of.get(owner, 0)

    def find(self, request: str, now_us: int) -> RequestRecord | AnsweredRequest | None:
        self._forget_old(now_us)  # perhaps nothing has been answered for long
        return (
            self.under_way.get(request)
            or self._waited_for.get(request)
            or self._fetched_later.get(request)
        )

    def fetch_within_us(self, answered: AnsweredRequest, now_us: int) -> int:
        """For how long an answer that is fetched later still can be; 0 for any other."""
        if not answered.fetched_later:
            return 0
        return max(0, answered.answered_us + self._fetched_later.longest_us - now_us)

    def answered(self) -> list[tuple[str, AnsweredRequest]]:
        """All that is remembered of those that have ended, the oldest of each kind first."""
        return [*self._waited_for.items(), *self._fetched_later.items()]

    def remember(self, request: str, answered: AnsweredRequest) -> None:
        """Keep the answer of a request, which is not under way any more."""
        record = self.under_way.pop(request, None)
        if record is not None:
            self._under_way_bytes -= _size(record.outputs)
            owner = owner_of(request)
            self._under_way_of[owner] -= 1
            if not self._under_way_of[owner]:
                del self._under_way_of[owner]
        memory = self._fetched_later if answered.fetched_later else self._waited_for
        memory.add(request, answered)
        self._forget_old(answered.answered_us)
        if self.holds_too_much:
            excess_bytes = self.held_bytes - MOST_HELD_BYTES
            self._waited_for.drop_outputs(excess_bytes, answered.answered_us - DELIVERED_US)

    @property
    def held_bytes(self) -> int:
        """Of outputs, all together."""
        answered = self._waited_for.held_bytes + self._fetched_later.held_bytes
        return self._under_way_bytes + answered

    @property
    def holds_too_much(self) -> bool:
        """Whether no more outputs are to be brought along."""
        return self.held_bytes > MOST_HELD_BYTES

    def bring(self, request: str, stage: str, content: bytes | None) -> None:
        """A stage is done, perhaps not for the first time: this came along, or nothing did."""
        record = self.under_way.get(request)
        if record is None or (content is None and stage not in record.outputs):
            return
        outputs = {known: made for known, made in record.outputs.items() if known != stage}
        if content is not None:
            outputs[stage] = content
        self._put(request, replace(record, outputs=outputs))

    def _put(self, request: str, record: RequestRecord) -> None:
        known = self.under_way.get(request)
        self._under_way_bytes += _size(record.outputs) - (_size(known.outputs) if known else 0)
        self.under_way[request] = record

    def want(self, request: str, memo: Memo) -> None:
        """Somebody else asks for a request: its answer may have to be remembered for longer."""
        record = self.under_way.get(request)
        if record is not None:
            self.under_way[request] = replace(
                record,
                gateways=tuple(dict.fromkeys((*record.gateways, *who_waits(memo)))),
                fetched_later=record.fetched_later or is_kept(memo),
            )
        elif is_kept(memo) and (answered := self._waited_for.pop(request)) is not None:
            kept = replace(answered, fetched_later=True, shared=True)
            self._fetched_later.add(request, kept)

    def _forget_old(self, now_us: int) -> None:
        for memory in (self._fetched_later, self._waited_for):
            memory.forget_old(now_us)


def _size(outputs: Outputs) -> int:
    return sum(map(len, outputs.values())) if outputs else 0
