"""Which MIG instances fit together on a GPU: NVIDIA's placement rules.

A GPU has slices of memory in a row, and an instance takes some that are next to each other. Where
each kind of instance may start is fixed by the hardware, so that not every set of instances with
few enough GPCs can be made: two of 3g fill an A100, although a GPC is left over, and three of 2g
leave room for one of 1g only.

The table is what `nvidia-smi mig -lgipp` prints of each GPU (`{starts}:size`), as in NVIDIA's MIG
User Guide, "Supported MIG Profiles" and "List GPU Instance Profiles"
(docs.nvidia.com/datacenter/tesla/mig-user-guide). Left out are variants with media engines (+me),
of which a GPU can have one: they are placed as those of the same name without.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from esg.core.catalog.slice_kinds import MIG, counts, layout_text
from esg.errors import Rejected
from esg.suggest import did_you_mean

Placement = tuple[tuple[str, int], ...]
"""Instances, and the memory slice that each begins at."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A kind of instance: how many slices of memory it takes, and where it may begin."""

    name: str
    size: int
    starts: tuple[int, ...]

    @property
    def gpcs(self) -> int:
        found = MIG.fullmatch(self.name)
        assert found is not None
        return int(found["gpcs"])


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU that can be partitioned, with its profiles, the largest first."""

    name: str
    memory_slices: int
    profiles: tuple[MigProfile, ...]

    @property
    def gpcs(self) -> int:
        """Those that instances can have."""
        return self.profiles[0].gpcs

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(profile.name for profile in self.profiles)

    def profile(self, kind: str) -> MigProfile:
        for profile in self.profiles:
            if profile.name == kind:
                return profile
        raise Rejected(f"{self.name}: {did_you_mean('MIG profile', kind, self.kinds)}")


def _of_eight(name: str, gb: int) -> GpuModel:
    """Seven GPCs, and eight slices of memory of so many GB."""
    return GpuModel(
        name,
        8,
        (
            MigProfile(f"7g.{8 * gb}gb", 8, (0,)),
            MigProfile(f"4g.{4 * gb}gb", 4, (0,)),
            MigProfile(f"3g.{4 * gb}gb", 4, (0, 4)),
            MigProfile(f"2g.{2 * gb}gb", 2, (0, 2, 4)),
            MigProfile(f"1g.{2 * gb}gb", 2, (0, 2, 4, 6)),
            MigProfile(f"1g.{gb}gb", 1, (0, 1, 2, 3, 4, 5, 6)),
        ),
    )


GPU_MODELS: Mapping[str, GpuModel] = {
    model.name: model
    for model in (
        _of_eight("a100-40gb", 5),
        _of_eight("a100-80gb", 10),
        _of_eight("h100-80gb", 10),
        GpuModel(
            "a30",
            4,
            (
                MigProfile("4g.24gb", 4, (0,)),
                MigProfile("2g.12gb", 2, (0, 2)),
                MigProfile("1g.6gb", 1, (0, 1, 2, 3)),
            ),
        ),
    )
}


def gpu_model(name: str) -> GpuModel:
    """The model of that name, in whatever case.

    >>> gpu_model("A100-80GB").kinds
    ('7g.80gb', '4g.40gb', '3g.40gb', '2g.20gb', '1g.20gb', '1g.10gb')
    """
    found = GPU_MODELS.get(name.lower())
    if found is None:
        raise Rejected(did_you_mean("GPU model", name.lower(), GPU_MODELS))
    return found


def placement_of(model: GpuModel, kinds: Sequence[str]) -> Placement | None:
    """Where instances of these kinds can be placed all at once, if they can.

    >>> placement_of(gpu_model("a30"), ["1g.6gb", "1g.6gb", "2g.12gb"])
    (('2g.12gb', 0), ('1g.6gb', 2), ('1g.6gb', 3))
    """
    profiles = sorted((model.profile(kind) for kind in kinds), key=model.profiles.index)
    return _placed(profiles, 0)


def _placed(profiles: Sequence[MigProfile], taken: int) -> Placement | None:
    """`taken` has a bit for every slice of memory that is."""
    if not profiles:
        return ()
    first = profiles[0]
    for start in first.starts:
        own = _bits(first, start)
        if not own & taken:
            others = _placed(profiles[1:], taken | own)
            if others is not None:
                return ((first.name, start), *others)
    return None


def _bits(profile: MigProfile, start: int) -> int:
    return ((1 << profile.size) - 1) << start


def why_not(model: GpuModel, kinds: Sequence[str]) -> str | None:
    """Why instances of these kinds cannot be on one GPU, if they cannot: a sentence.

    >>> a100 = gpu_model("a100-80gb")
    >>> why_not(a100, ["4g.40gb", "3g.40gb"])
    >>> why_not(a100, ["2g.20gb", "2g.20gb", "2g.20gb", "2g.20gb"])
    '4x2g.20gb does not fit on an a100-80gb: of 2g.20gb it can have 3 at most'
    """
    if not kinds:
        return "a GPU needs at least one instance"
    unknown = [kind for kind in kinds if kind not in model.kinds]
    if unknown:
        return f"{model.name}: {did_you_mean('MIG profile', unknown[0], model.kinds)}"
    if placement_of(model, kinds) is not None:
        return None
    words = f"{layout_text(kinds)} does not fit on an {model.name}"
    for kind, count in counts(kinds).items():
        most = len(model.profile(kind).starts)
        if count > most:
            return f"{words}: of {kind} it can have {most} at most"
    needed = sum(model.profile(kind).size for kind in kinds)
    if needed > model.memory_slices:
        return (
            f"{words}: that takes {needed} slices of memory, and it has {model.memory_slices} "
            "(an instance takes more of them than its name says GPCs: see NVIDIA's MIG User Guide)"
        )
    starts = ", ".join(
        f"{kind} at {' or '.join(map(str, model.profile(kind).starts))}" for kind in counts(kinds)
    )
    return f"{words}: instances can only begin at certain slices of memory ({starts})"


def full_placements(model: GpuModel, kinds: Collection[str] | None = None) -> list[Placement]:
    """All ways to fill a GPU with instances of these kinds (all, if not said), so that no further
    one has room: what NVIDIA's guide lists."""
    profiles = [p for p in model.profiles if kinds is None or p.name in kinds]

    def fill(at: int, taken: int) -> Iterator[Placement]:
        if at == model.memory_slices:
            if not any(not _bits(p, start) & taken for p in profiles for start in p.starts):
                yield ()
            return
        for profile in profiles:
            own = _bits(profile, at)
            if at in profile.starts and not own & taken:
                for others in fill(at + profile.size, taken | own):
                    yield ((profile.name, at), *others)
        yield from fill(at + 1, taken)

    return list(fill(0, 0))


def maximal_layouts(model: GpuModel, kinds: Collection[str] | None = None) -> list[tuple[str, ...]]:
    """The layouts that none other contains: what a whole GPU can be cut into, the largest instances
    first.

    >>> [layout_text(layout) for layout in maximal_layouts(gpu_model("a30"))]
    ['4g.24gb', '2x2g.12gb', '2g.12gb+2x1g.6gb', '4x1g.6gb']
    """
    order = model.kinds.index
    found = {
        tuple(sorted((kind for kind, _ in placement), key=order))
        for placement in full_placements(model, kinds)
    }
    kept = [one for one in found if not any(_contains(other, one) for other in found)]
    return sorted(kept, key=lambda layout: [order(kind) for kind in layout])


def _contains(larger: Sequence[str], smaller: Sequence[str]) -> bool:
    """Whether a layout has all instances of another one, and more."""
    has = counts(larger)
    return len(larger) > len(smaller) and all(
        has.get(kind, 0) >= count for kind, count in counts(smaller).items()
    )
