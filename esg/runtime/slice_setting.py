"""Which slices a node has: what its setting `slices` means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from esg.core.catalog.slice_kinds import (
    MIG,
    NAME,
    SliceKind,
    layout_parts,
    parse_layout,
)
from esg.errors import Rejected
from esg.runtime.rpc.addresses import is_address, is_unix
from esg.suggest import shortened

MOST = 256
"""More slices than that on one node are a slip."""
MOST_THREADS = 256
COUNTED_AT_MOST = 64
"""A number up to this behind a bare word is a count of slices of a kind that there is not: Triton
servers have no such ports."""
KINDS = (
    "auto, emulated:N, cpu:N, mig, gpu, or Triton servers as host:port,host:port,... or "
    "unix:PATH,..."
)
CPU_KIND = re.compile(r"cpu-([1-9][0-9]{0,2})")
GPU_KIND = "gpu-"
IN_TURN = ","


@dataclass(frozen=True, slots=True)
class _Layouts:
    """The slices of a node as a layout, or several with commas, which nodes have in turn."""

    text: str

    @property
    def each(self) -> list[str]:
        return [part.strip() for part in self.text.split(IN_TURN)]

    def of(self, number: int) -> Self:
        """What node `number` has, counted from 0.

        >>> [str(Emulated("7,2x3g.40gb").of(number)) for number in range(3)]
        ['emulated:7', 'emulated:2x3g.40gb', 'emulated:7']
        """
        return type(self)(self.each[number % len(self.each)])

    def from_node(self, number: int) -> Self:
        """The same, where the first node is this one."""
        each = self.each
        start = number % len(each)
        return type(self)(IN_TURN.join([*each[start:], *each[:start]]))

    @property
    def count(self) -> int:
        """How many slices the first node has."""
        return sum(count for count, _ in layout_parts(self.each[0]))


@dataclass(frozen=True, slots=True)
class Emulated(_Layouts):
    """Slices in a process of our own that takes the profiled times."""

    def __str__(self) -> str:
        return f"emulated:{self.text}"

    def kinds(self, known: Mapping[str, SliceKind], number: int = 0) -> tuple[str, ...]:
        """Of which kinds of a catalog the slices of a node are."""
        try:
            return parse_layout(self.each[number % len(self.each)], known)
        except Rejected as error:
            raise Rejected(f"invoker.slices: {error}") from None


@dataclass(frozen=True, slots=True)
class Cpu(_Layouts):
    """Triton servers of our own without a GPU, each with a number of threads."""

    def __str__(self) -> str:
        return f"cpu:{self.text}"

    def threads(self, number: int = 0) -> tuple[int, ...]:
        """Of each slice of a node.

        >>> Cpu("2").threads(), Cpu("cpu-2+2xcpu-1").threads()
        ((1, 1), (2, 1, 1))
        """
        found: list[int] = []
        for count, name in layout_parts(self.each[number % len(self.each)]):
            match = CPU_KIND.fullmatch(name)
            found += [int(match[1]) if match else 1] * count
        return tuple(found)


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
    """Triton servers that somebody else runs, a slice each, with the kind of each as it was said;
    empty where it was not."""

    addresses: tuple[str, ...]
    kinds: tuple[str, ...] = ()

    def kind(self, index: int) -> str:
        return self.kinds[index] if self.kinds else ""


Kind = Emulated | Cpu | Mig | Gpu | Auto | Addresses
WORDS: dict[str, tuple[Mig | Gpu | Auto, str]] = {
    "mig": (Mig(), "every MIG instance of this host is a slice"),
    "gpu": (Gpu(), "every GPU of this host that is not in MIG mode is a slice"),
    "auto": (Auto(), "slices are what this host has"),
}


def parse_slices(text: str) -> Kind:
    """
    >>> parse_slices("emulated:7"), parse_slices("cpu:2"), parse_slices("mig")
    (Emulated(text='7'), Cpu(text='2'), Mig())
    >>> parse_slices("gpu0:8001, gpu0:8011").addresses
    ('gpu0:8001', 'gpu0:8011')
    >>> parse_slices("3g.40gb@gpu0:8001").kind(0)
    '3g.40gb'
    """
    kind, _, number = text.strip().partition(":")
    if kind == "emulated":
        _check_layouts(kind, number, NAME, "a kind of the catalog, as in emulated:4g.40gb+3g.40gb")
        return Emulated(number.strip())
    if kind == "cpu":
        _check_layouts(kind, number, CPU_KIND, "their threads, as in cpu:cpu-2+2xcpu-1")
        return Cpu(number)
    if kind in WORDS and (not number or number in map(str, range(COUNTED_AT_MOST + 1))):
        named, meaning = WORDS[kind]
        if number:
            raise Rejected(f"invoker.slices: {text!r}: say {kind}; {meaning}")
        return named
    if kind.isalpha() and kind != "localhost" and number in map(str, range(COUNTED_AT_MOST + 1)):
        raise Rejected(f"invoker.slices: unknown slices {text!r}; known: {KINDS}")
    return _addresses(text)


def measuring(kind: str) -> str:
    """The setting that has slices of a kind, for whoever wants to measure on them.

    >>> [measuring(kind) for kind in ("3g.40gb", "gpu-L4", "cpu-2", "")]
    ['mig', 'gpu', 'cpu:cpu-2', 'SLICES']
    """
    if CPU_KIND.fullmatch(kind):
        return f"cpu:{kind}"
    if kind.startswith(GPU_KIND):
        return "gpu"
    return "mig" if MIG.match(kind) else "SLICES"


def _check_layouts(word: str, text: str, name: re.Pattern[str], otherwise: str) -> None:
    """Whether these are numbers of slices; which kinds a catalog has is not known here."""
    for each in text.split(IN_TURN):
        try:
            parts = layout_parts(each)
        except Rejected:
            parts = []
        named = all(not said or name.fullmatch(said) for _, said in parts)
        if not (named and 1 <= sum(count for count, _ in parts) <= MOST):
            raise Rejected(
                f"invoker.slices: {shortened(f'{word}:{text}')!r}: the number of slices is a whole "
                f"number from 1 to {MOST}, as in {word}:7; or say {otherwise}"
            )


def _addresses(text: str) -> Addresses:
    parts = [_with_kind(part.strip()) for part in text.split(IN_TURN)]
    addresses = tuple(address for _, address in parts)
    for kind, address in parts:
        if not is_address(address) and not is_unix(address):
            raise Rejected(f"invoker.slices: {address!r} is no address; give {KINDS}")
        if addresses.count(address) > 1:
            raise Rejected(
                f"invoker.slices: {address} is there twice; every slice has a server of its own"
            )
        if kind and not NAME.fullmatch(kind):
            raise Rejected(
                f"invoker.slices: {shortened(kind)!r} is no kind of slices; write it before the "
                f"address, as in 3g.40gb@{address}"
            )
    kinds = tuple(kind for kind, _ in parts)
    return Addresses(addresses, kinds if any(kinds) else ())


def _with_kind(part: str) -> tuple[str, str]:
    """
    >>> _with_kind("cpu-2@unix:/run/a@b"), _with_kind("unix:/run/a@b")
    (('cpu-2', 'unix:/run/a@b'), ('', 'unix:/run/a@b'))
    """
    kind, at, address = part.partition("@")
    return (kind, address) if at and not is_unix(part) else ("", part)
