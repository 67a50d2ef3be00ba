"""Where plain text may go: to this machine itself, and nowhere else unless somebody insists.

Whoever would listen or call without TLS on an address that others can reach is refused when it
starts, with what to set instead.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from esg.errors import Rejected
from esg.runtime.rpc.addresses import host_of, is_unix

INSIST = (
    "insecure = true (ESG_INSECURE=true) if everyone on that network may read and change what is "
    "sent"
)
FOR_SERVICES = "set tls_ca, tls_certificate and tls_key (esg certificates makes them)"
FOR_CLIENTS = "say whom to trust (ESG_CLIENT_CA, or credentials=)"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, seen from itself. Names are not looked up.

    >>> [is_loopback(h) for h in ("127.0.0.1", "::1", "[::1]", "localhost")]
    [True, True, True, True]
    >>> [is_loopback(h) for h in ("0.0.0.0", "10.0.0.7", "gateway", "")]
    [False, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_local(address: str) -> bool:
    """Whether an address is on this machine, seen from itself: a Unix socket, or the loopback."""
    return is_unix(address) or is_loopback(host_of(address))


def check_listening(host: str, *, insecure: bool) -> None:
    """Before a server listens without TLS."""
    if not insecure and not is_unix(host) and not is_loopback(host):
        raise Rejected(f"would listen on {host} without TLS; {FOR_SERVICES}, or {INSIST}")


def check_calling(address: str, *, insecure: bool, advice: str = FOR_SERVICES) -> None:
    """Before a connection is made without TLS."""
    if not insecure and not is_local(address):
        raise Rejected(f"would call {address} without TLS; {advice}, or {INSIST}")


def check_redis(url: str, *, insecure: bool) -> None:
    """Before Redis is used without TLS."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme == "redis" and not is_loopback(parts.hostname or "localhost")
    except ValueError:
        return  # whoever connects says what is wrong with it
    if plain and not insecure:
        raise Rejected(
            f"redis_url: would call {parts.hostname} without TLS; write rediss:// if that server "
            f"speaks TLS, or set {INSIST}"
        )
