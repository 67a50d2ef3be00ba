"""Addresses, as host:port: what one looks like, and where processes of a mesh are by default.

gRPC takes what is no address for a name, and looks it up; so addresses are checked before.
"""

import re

from esg.errors import Rejected
from esg.suggest import shortened

LOOPBACK = "127.0.0.1"
GATEWAY_PORT = 50051
DEFAULT_GATEWAY = f"{LOOPBACK}:{GATEWAY_PORT}"
READY_FILE = "ESG_READY_FILE"
"""The variable that names the file to which a process writes its address when it serves."""

GRPCS_OWN = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):")
"""Ways to name a peer that gRPC knows, for those who do."""
HOST_AND_PORT = re.compile(r"(\[[^\s/\[\]]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
HIGHEST_PORT = 65_535
EVERY_INTERFACE = {"0.0.0.0": LOOPBACK, "::": "[::1]", "[::]": "[::1]"}
"""Hosts to listen on, and where that can be called from this machine."""


SERVICE_DOMAIN = "esg"


def service_name(service: str, domain: str = SERVICE_DOMAIN) -> str:
    """What the certificate of a service is made out to, wherever it runs; without a domain it is
    the host, as usual.

    >>> service_name("controller"), service_name("controller", "")
    ('controller.esg', '')
    """
    return f"{service}.{domain}" if domain else ""


def is_address(text: str) -> bool:
    """
    >>> [is_address(text) for text in ("gateway:443", "[::1]:50051", "localhost", "h:0", "h:65536")]
    [True, True, False, False, False]
    """
    found = HOST_AND_PORT.fullmatch(text)
    return found is not None and 0 < int(found[2]) <= HIGHEST_PORT


def is_unix(address: str) -> bool:
    """Whether it is that of a Unix socket, which is on this machine, and whose permissions say who
    may call it.

    >>> is_unix("unix:/run/esg/slice:1"), is_unix("unix:8001")
    (True, False)
    """
    return address.startswith("unix:/")


def check_address(address: str) -> None:
    """Before it is called.

    >>> for address in ("127.0.0.1:50051", "[::1]:50051", "gateway:443", "dns:///mesh.local:443"):
    ...     check_address(address)
    >>> check_address("localhost")
    Traceback (most recent call last):
    esg.errors.Rejected: address 'localhost': must be host:port, as in 127.0.0.1:50051
    """
    if not GRPCS_OWN.match(address) and not is_address(address):
        raise Rejected(
            f"address {shortened(address)!r}: must be host:port, as in {DEFAULT_GATEWAY}"
        )


def split_addresses(text: str) -> list[str]:
    """The addresses in a list with commas, as of several gateways. What gRPC takes as one is one.

    >>> split_addresses("gateway:443, spare:443"), split_addresses("ipv4:10.0.0.1:7,10.0.0.2:7")
    (['gateway:443', 'spare:443'], ['ipv4:10.0.0.1:7,10.0.0.2:7'])
    """
    if GRPCS_OWN.match(text):
        return [text]
    return [address.strip() for address in text.split(",")]


def host_of(address: str) -> str:
    """
    >>> host_of("10.0.0.7:50051"), host_of("[::1]:50051"), host_of("dns:///mesh.local:443")
    ('10.0.0.7', '[::1]', 'mesh.local')
    """
    return address.rpartition("/")[2].rpartition(":")[0]


def callable_address(address: str) -> str:
    """Where a process that listens on every interface can be called from this machine.

    >>> callable_address("0.0.0.0:50051"), callable_address("[::]:7"), callable_address("h:1")
    ('127.0.0.1:50051', '[::1]:7', 'h:1')
    """
    host, _, port = address.rpartition(":")
    return f"{EVERY_INTERFACE.get(host, host)}:{port}"


def socket_address(address: str) -> tuple[str, int]:
    """Host and port as sockets take them: an IPv6 address has no brackets there.

    >>> socket_address("127.0.0.1:50051"), socket_address("[::1]:7")
    (('127.0.0.1', 50051), ('::1', 7))
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
