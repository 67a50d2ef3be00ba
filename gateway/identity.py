"""Identity of callers: a client with a token, or where there are no tokens, an address.

A call is authenticated once, by `AuthInterceptor`, before anything it sends is read. Whether its
token is still good is asked again for every request on a stream: one that is taken out of the file,
or expires, is good for nothing from then on.
"""

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from esg.errors import Rejected
from esg.runtime.rpc.status import Unauthenticated
from esg.runtime.security.files import Reloaded
from esg.runtime.security.tokens import (
    Entries,
    Quota,
    TokenEntry,
    digest_of,
    read_entries,
    time_text,
    whose,
)
from esg.runtime.settings import GatewaySettings

Metadata = Iterable[tuple[str, str | bytes]]

SCHEME = "bearer "
LONGEST_TOKEN = 1024


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with limits of their own, and perhaps with a token.

    What `owner` owns nobody else sees. Operators, and all who call a gateway without tokens, own
    nothing and see everything.
    """

    name: str
    owner: str
    quota: Quota
    digest: str = field(default="", repr=False)
    """Of the token that was shown; it may have been replaced since."""


class Identities:
    """`told` hears what comes of reading the file with the tokens."""

    def __init__(
        self,
        settings: GatewaySettings,
        clock_s: Callable[[], float] = time.time,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._clock_s = clock_s
        self._anyone = Quota(requests_per_s=settings.max_requests_per_s, burst=settings.burst)
        file = Path(settings.tokens)

        def read() -> Entries:
            try:
                entries = read_entries(file)
            except Rejected:
                told("not read")
                raise
            told("read")
            return entries

        self._authenticated: ContextVar[Caller | None] = ContextVar("caller", default=None)
        self._entries = Reloaded([file], read) if settings.tokens else None

    @property
    def need_tokens(self) -> bool:
        return self._entries is not None

    def authenticate(self, metadata: Metadata) -> None:
        """Find out who makes this call, for all that is done in its task; refused if nobody is
        known by its token."""
        if self._entries is None:
            return
        token = _token(metadata)
        entry = whose(token, self._entries.get().values())
        if entry is None:
            raise Unauthenticated(
                "this token is not known here; it may be mistyped, or was removed: ask for one "
                "(esg tokens add NAME), and set ESG_TOKEN"
            )
        self._authenticated.set(self._caller(entry, digest_of(token)))

    def caller(self, peer: str) -> Caller:
        """Who makes this call: whoever was authenticated, or where there are no tokens, anyone."""
        if self._entries is None:
            return Caller(address_of(peer), "", self._anyone)
        found = self._authenticated.get()
        if found is None:
            raise Unauthenticated("this call was not authenticated")
        return found

    def known_as(self, peer: str) -> str:
        """The name of whoever makes this call, which may be one that needs no token."""
        found = self._authenticated.get()
        return address_of(peer) if found is None else found.name

    def still(self, caller: Caller) -> Caller:
        """The same later, with the limits as they are now; a token may have been removed, or be
        another one."""
        if self._entries is None:
            return caller
        entry = self._entries.get().get(caller.name)
        if entry is None:
            raise Unauthenticated(f"the token of {caller.name} was removed; ask for another one")
        return self._caller(entry, caller.digest)

    def _caller(self, entry: TokenEntry, digest: str) -> Caller:
        """The client that shows the token with this digest; refused if that is not good any
        more."""
        shown = entry.shown(digest)
        if shown is None:
            raise Unauthenticated(
                f"the token of {entry.name} was replaced; connect again, with the new one"
            )
        if shown.expires_s is not None and shown.has_expired(self._clock_s()):
            raise Unauthenticated(
                f"this token of {entry.name} expired at {time_text(shown.expires_s)}; ask for "
                "another one (esg tokens rotate NAME), and set ESG_TOKEN"
            )
        owner = "" if entry.operator else entry.name
        return Caller(entry.name, owner, entry.quota, digest)


def _token(metadata: Metadata) -> str:
    for key, value in metadata:
        if key == "authorization" and isinstance(value, str):
            if value[: len(SCHEME)].lower() == SCHEME and len(value) <= LONGEST_TOKEN:
                return value[len(SCHEME) :]
            raise Unauthenticated("authorization: is no bearer token; write Bearer and the token")
    raise Unauthenticated(
        "a token is needed here: set ESG_TOKEN, or pass token= to the client; "
        "esg tokens add NAME makes one"
    )


def address_of(peer: str) -> str:
    """The address in gRPC's name of a peer.

    >>> address_of("ipv4:10.0.0.7:51342"), address_of("ipv6:%5B::1%5D:51342"), address_of("unix:")
    ('10.0.0.7', '%5B::1%5D', 'unix')
    """
    kind, _, rest = peer.partition(":")
    return rest.rpartition(":")[0] or kind
