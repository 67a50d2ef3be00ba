"""Which slices a node has: what its setting `slices` means."""

from dataclasses import dataclass

from esg.errors import Rejected
from esg.runtime.rpc.addresses import is_address, is_unix

MOST = 256
"""More slices than that on one node are a slip."""
COUNTED_AT_MOST = 64
"""A number up to this behind a bare word is a count of slices of a kind that there is not: Triton
servers have no such ports."""
KINDS = (
    "auto, emulated:N, cpu:N, mig, gpu, or Triton servers as host:port,host:port,... or "
    "unix:PATH,..."
)


@dataclass(frozen=True, slots=True)
class Emulated:
    """So many slices in a process of our own that takes the profiled times."""

    count: int

    def __str__(self) -> str:
        return f"emulated:{self.count}"


@dataclass(frozen=True, slots=True)
class Cpu:
    """So many Triton servers of our own, without a GPU."""

    count: int


@dataclass(frozen=True, slots=True)
class Mig:
    """A Triton server of our own on every MIG instance of this host."""

    def __str__(self) -> str:
        return "mig"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A Triton server of our own on every whole GPU of this host."""

    def __str__(self) -> str:
        return "gpu"


@dataclass(frozen=True, slots=True)
class Auto:
    """What this host has: a Triton server on every MIG instance, and on every GPU without MIG; or
    emulated slices where there is no driver."""

    def __str__(self) -> str:
        return "auto"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Triton servers that somebody else runs, a slice each."""

    addresses: tuple[str, ...]


Kind = Emulated | Cpu | Mig | Gpu | Auto | Addresses
WORDS: dict[str, tuple[Mig | Gpu | Auto, str]] = {
    "mig": (Mig(), "every MIG instance of this host is a slice"),
    "gpu": (Gpu(), "every GPU of this host that is not in MIG mode is a slice"),
    "auto": (Auto(), "slices are what this host has"),
}


def parse_slices(text: str) -> Kind:
    """
    >>> parse_slices("emulated:7"), parse_slices("cpu:2"), parse_slices("mig")
    (Emulated(count=7), Cpu(count=2), Mig())
    >>> parse_slices("gpu0:8001, gpu0:8011")
    Addresses(addresses=('gpu0:8001', 'gpu0:8011'))
    """
    kind, _, number = text.strip().partition(":")
    if kind in ("emulated", "cpu"):
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST):
            raise Rejected(
                f"invoker.slices: {text!r}: the number of slices is a whole number from "
                f"1 to {MOST}, as in {kind}:7"
            )
        return Emulated(int(number)) if kind == "emulated" else Cpu(int(number))
    if kind in WORDS and (not number or number in map(str, range(COUNTED_AT_MOST + 1))):
        named, meaning = WORDS[kind]
        if number:
            raise Rejected(f"invoker.slices: {text!r}: say {kind}; {meaning}")
        return named
    if kind.isalpha() and kind != "localhost" and number in map(str, range(COUNTED_AT_MOST + 1)):
        raise Rejected(f"invoker.slices: unknown slices {text!r}; known: {KINDS}")
    addresses = tuple(address.strip() for address in text.split(","))
    for address in addresses:
        if not is_address(address) and not is_unix(address):
            raise Rejected(f"invoker.slices: {address!r} is no address; give {KINDS}")
        if addresses.count(address) > 1:
            raise Rejected(
                f"invoker.slices: {address} is there twice; every slice has a server of its own"
            )
    return Addresses(addresses)
