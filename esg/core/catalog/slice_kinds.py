"""Kinds of slices: what a vGPU is made of, what one costs, and which of them a node has.

    1g.10gb       a MIG instance: its share of the GPU's compute (GPCs), and its memory
    1g.10gb-H100  the same, of this device alone; 1g.10gb.me is what NVIDIA calls 1g.10gb+me
    gpu-L4        a whole GPU without MIG, by the name of the device
    cpu-2         a Triton server without a GPU, on so many threads

A catalog has one usual kind, which configs and messages do not name: in the paper there is no
other. Whatever the profiles say is said of a kind, and a function is not planned on slices of a
kind that its profile does not know.

A layout is the slices of one node, as text: how many of which kind, joined by `+`. A bare number
counts usual slices, and parts in alternation say what nodes have in turn, separated by commas.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from esg.errors import Rejected
from esg.limits import MOST_SLICES
from esg.suggest import did_you_mean, shortened

USUAL = ""
"""The kind of a catalog's usual slices, in configs and messages."""

MIG = re.compile(r"(?P<gpcs>[1-7])g\.(?P<gb>[0-9]{1,3})gb(?:[+.][a-z.]+)?(?:-[a-zA-Z0-9._-]+)?")
"""What NVIDIA calls a MIG instance; the suffix says what else it has, and on which device."""
NAME = re.compile(r"(?=.*[a-z])(?![0-9]+x)[a-z0-9][a-z0-9._-]{0,99}", re.IGNORECASE)
_PART = re.compile(r"(?:(?P<count>[0-9]{1,4})x)?(?P<name>.+)")
MB_PER_GB = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceKind:
    """A kind of slices by its real name, with the memory and the price of each."""

    name: str
    memory_mb: int
    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """So many nodes that are alike: their vCPUs, and the kind of each of their slices."""

    count: int
    vcpus: int
    slices: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """How many slices of each kind one of them has."""
        return counts(self.slices)


def all_alike(memory_mb: int, usd_per_hour: float = 0.0) -> dict[str, SliceKind]:
    """Kinds where all slices are alike, whatever they are."""
    return {USUAL: SliceKind(name="", memory_mb=memory_mb, usd_per_hour=usd_per_hour)}


ALL_ALIKE: Mapping[str, SliceKind] = all_alike(0)
"""Where nothing is said of kinds."""


def prices_by_kind(kinds: Mapping[str, SliceKind]) -> dict[str, float]:
    """What a slice costs per hour, but for usual ones."""
    return {kind: said.usd_per_hour for kind, said in kinds.items() if kind != USUAL}


def counts(slices: Iterable[str]) -> dict[str, int]:
    """How many there are of each kind.

    >>> counts(["3g.40gb", "1g.10gb", "1g.10gb"])
    {'3g.40gb': 1, '1g.10gb': 2}
    """
    found: dict[str, int] = {}
    for kind in slices:
        found[kind] = found.get(kind, 0) + 1
    return found


def check_kind_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Rejected(
            f"{shortened(name)!r} cannot be a kind of slices: use letters, digits, dots and "
            "dashes, as in 3g.40gb, gpu-L4 or cpu-2"
        )


def mig_kind(name: str, vgpu_usd_per_hour: float, usual: str = "") -> SliceKind | None:
    """What the name of a MIG instance says, if it is one; its price is by GPCs.

    >>> kind = mig_kind("3g.40gb", 0.5)
    >>> kind.memory_mb, kind.usd_per_hour
    (40000, 1.5)
    """
    found = MIG.fullmatch(name)
    if found is None:
        return None
    beside = MIG.fullmatch(usual)
    share = int(found["gpcs"]) / (int(beside["gpcs"]) if beside else 1)
    return SliceKind(
        name=name, memory_mb=int(found["gb"]) * MB_PER_GB, usd_per_hour=share * vgpu_usd_per_hour
    )


def layout_parts(text: str) -> list[tuple[int, str]]:
    """How many of what, as a layout is written; a bare number has no name.

    >>> layout_parts("3g.40gb + 2x1g.10gb"), layout_parts("7")
    ([(1, '3g.40gb'), (2, '1g.10gb')], [(7, '')])
    """
    found = []
    for said in text.split("+"):
        part = said.strip()
        if part.isascii() and part.isdecimal() and len(part) <= 4:
            found.append((int(part), USUAL))
            continue
        match = _PART.fullmatch(part)
        if match is None:
            raise Rejected(
                f"{shortened(text)!r}: {shortened(said)!r} is no number of slices, as in 2x3g.40gb"
            )
        found.append((int(match["count"] or 1), match["name"]))
    return found


def parse_layout(text: str, kinds: Mapping[str, SliceKind]) -> tuple[str, ...]:
    """The kinds of a node's slices, in order.

    >>> kinds = {
    ...     n: SliceKind(name=n or "1g.10gb", memory_mb=1, usd_per_hour=1) for n in ("", "3g.40gb")
    ... }
    >>> parse_layout("3g.40gb+2x1g.10gb", kinds), parse_layout("2", kinds)
    (('3g.40gb', '', ''), ('', ''))
    """
    usual = kinds[USUAL].name if USUAL in kinds else None
    known = [kind.name for kind in kinds.values()]
    found: list[str] = []
    for count, said in layout_parts(text):
        if not said and usual is None:
            raise Rejected(f"{shortened(text)!r}: say which kind of slices; known: {known}")
        name = said or usual or ""
        if name not in known:
            raise Rejected(f"{shortened(text)!r}: {did_you_mean('kind of slices', name, known)}")
        found += [USUAL if name == usual else name] * count
    if not 1 <= len(found) <= MOST_SLICES:
        raise Rejected(f"{shortened(text)!r}: {len(found)} slices; a node has 1 to {MOST_SLICES}")
    return tuple(found)


def parse_layouts(text: str, kinds: Mapping[str, SliceKind]) -> list[tuple[str, ...]]:
    """The layouts that nodes have in turn.

    >>> parse_layouts("2,1", ALL_ALIKE)
    [('', ''), ('',)]
    """
    return [parse_layout(part.strip(), kinds) for part in text.split(",")]


def layout_text(slices: Sequence[str], kinds: Mapping[str, SliceKind] | None = None) -> str:
    """The layout of a node, with the names of its kinds; the usual ones are a bare number where
    they are all there is, or nobody says what they are called.

    >>> layout_text(["3g.40gb", "", ""]), layout_text(["", ""])
    ('3g.40gb+2', '2')
    """
    parts = []
    only_usual = not any(slices)
    for kind, group in groupby(slices):
        count = len(list(group))
        name = kinds[kind].name if kinds and kind in kinds and not only_usual else kind
        parts.append(f"{count}x{name}" if name and count > 1 else name or str(count))
    return "+".join(parts)
