"""Reference counts of requests: which gateways wait for each, and which are kept whoever leaves.

A request belongs to the mesh, not to the gateway that heard of it first: it is cancelled only when
everyone who has asked for it is known to have left.

    a gateway submits or follows it     it waits for it
    its stream breaks, or it dies       it still does: it may come back, and asks again by itself
    its last client has left            it waits no longer; the request is cancelled unless another
                                        gateway waits for it, or it is kept
    somebody submits it to be fetched   it is kept, unless the gateway takes that back at once, as
    later                               it could not make the payload durable

So what a gateway waited for that died for good runs to its end. A gateway is known by its session:
one process, whatever streams it has. Who has asked is in the journal, as memos, before they are
told that the request was accepted; who has left is not, so after a restart those who left say so
again.
"""

from collections.abc import Iterable, Mapping


def wanted_memo(gateway: str, *, fetched_later: bool) -> dict[str, str]:
    """What the journal keeps of who asks for a request: a session that waits for it, or that nobody
    does."""
    return {"fetched_later": "yes"} if fetched_later else {"gateway": gateway}


def who_waits(memo: Mapping[str, str]) -> tuple[str, ...]:
    """The session that a memo names, if any."""
    return (memo["gateway"],) if "gateway" in memo else ()


def is_kept(memo: Mapping[str, str]) -> bool:
    """Whether the request is to be fetched later."""
    return "fetched_later" in memo


class Interest:
    """Who waits for the requests under way, and who has them kept: sessions, in either case."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, None]] = {}
        self._keeping: dict[str, dict[str, None]] = {}

    def ask(self, request: str, gateway: str, memo: Mapping[str, str]) -> None:
        """A session asks for a request, as the memo says; saying so again changes nothing."""
        holders = self._keeping if is_kept(memo) else self._waiting
        holders.setdefault(request, {})[gateway] = None

    def recall(self, request: str, gateways: Iterable[str], *, kept: bool) -> None:
        """What a journal has: these sessions have waited, and somebody may have had it kept."""
        self._waiting[request] = dict.fromkeys(gateways)
        self._keeping[request] = {"": None} if kept else {}

    def leave(self, request: str, gateway: str) -> bool:
        """A session waits no longer; whether the request is to be cancelled. What is not known, or
        was said before, is no news."""
        return self._let_go(self._waiting, request, gateway)

    def keep_not(self, request: str, gateway: str) -> bool:
        """A session takes back that the request is to be kept; the same."""
        return self._let_go(self._keeping, request, gateway)

    def end(self, request: str) -> None:
        """It is answered or refused."""
        self._waiting.pop(request, None)
        self._keeping.pop(request, None)

    def _let_go(self, holders: dict[str, dict[str, None]], request: str, gateway: str) -> bool:
        held = holders.get(request, {})
        if gateway not in held:
            return False
        del held[gateway]
        return not (self._waiting.get(request) or self._keeping.get(request))
