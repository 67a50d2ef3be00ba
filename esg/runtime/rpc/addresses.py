"""What an address looks like: host:port. gRPC takes what is none for a name, and looks it up."""

import re

from esg.errors import Rejected
from esg.suggest import shortened

GRPCS_OWN = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):")
"""Ways to name a peer that gRPC knows, for those who do."""
HOST_AND_PORT = re.compile(r"(\[[^\s/\[\]]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
HIGHEST_PORT = 65_535


def check_address(address: str) -> None:
    """Before it is called.

    >>> for address in ("127.0.0.1:50051", "[::1]:50051", "gateway:443", "dns:///mesh.local:443"):
    ...     check_address(address)
    >>> check_address("localhost")
    Traceback (most recent call last):
    esg.errors.Rejected: address 'localhost': must be host:port, as in 127.0.0.1:50051
    """
    if GRPCS_OWN.match(address):
        return
    found = HOST_AND_PORT.fullmatch(address)
    if found is None or not 0 < int(found[2]) <= HIGHEST_PORT:
        raise Rejected(f"address {shortened(address)!r}: must be host:port, as in 127.0.0.1:50051")
