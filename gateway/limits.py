"""How many requests one client may begin: a bucket of tokens for each.

A client is an address without its port. Its bucket holds `burst` tokens, fills at the agreed rate,
and every request takes one out. A full bucket says nothing, so it is forgotten.
"""

from collections.abc import Callable

from mesh.problems import Exhausted

FORGET_EVERY = 1024


class Rates:
    def __init__(self, per_s: float, burst: int, clock_s: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock_s = clock_s
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, as of a time
        self._forget_at = FORGET_EVERY

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, peer: str) -> None:
        """One request of this client (as gRPC names it); refused when the bucket is empty."""
        if not self._per_s:
            return
        client, now_s = client_of(peer), self._clock_s()
        tokens = self._tokens(client, now_s)
        if tokens < 1:
            raise Exhausted(
                f"more than {self._per_s:g} requests per second from {client}; send fewer, or "
                f"try again in {(1 - tokens) / self._per_s:.3f} s"
            )
        self._buckets[client] = (tokens - 1, now_s)
        if len(self._buckets) >= self._forget_at:
            self._forget(now_s)

    def _tokens(self, client: str, now_s: float) -> float:
        tokens, since_s = self._buckets.get(client, (self._burst, now_s))
        return min(self._burst, tokens + (now_s - since_s) * self._per_s)

    def _forget(self, now_s: float) -> None:
        full = [c for c in self._buckets if self._tokens(c, now_s) >= self._burst]
        for client in full:
            del self._buckets[client]
        self._forget_at = len(self._buckets) + FORGET_EVERY


def client_of(peer: str) -> str:
    """The address in gRPC's name of a peer.

    >>> client_of("ipv4:10.0.0.7:51342"), client_of("ipv6:%5B::1%5D:51342"), client_of("unix:")
    ('10.0.0.7', '%5B::1%5D', 'unix')
    """
    kind, _, rest = peer.partition(":")
    return rest.rpartition(":")[0] or kind
