"""A cluster: worker nodes by their classes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat

from esg.core.catalog.config import Config
from esg.core.catalog.slice_kinds import USUAL, NodeClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Worker nodes, class by class; live invokers register what they have. In the paper's testbed
    all are alike."""

    classes: tuple[NodeClass, ...]

    @staticmethod
    def alike(*, nodes: int, vcpus: int, vgpus: int) -> "Cluster":
        """Equal nodes with usual slices."""
        return Cluster(classes=(NodeClass(count=nodes, vcpus=vcpus, slices=(USUAL,) * vgpus),))

    @staticmethod
    def of(nodes: Iterable[NodeClass]) -> "Cluster":
        """Of these nodes in order, those that are alike and next to each other together."""
        groups = groupby(nodes, key=lambda one: replace(one, count=1))
        return Cluster(
            classes=tuple(replace(one, count=sum(n.count for n in each)) for one, each in groups)
        )

    def resized(
        self,
        *,
        nodes: int | None = None,
        vcpus: int | None = None,
        layouts: Sequence[tuple[str, ...]] = (),
    ) -> "Cluster":
        """With another number of nodes, of its classes in the same proportions, another number of
        vCPUs each, or other slices, in turn."""
        each = list(self.each())
        count = nodes or len(each)
        like = [each[number * len(each) // count] for number in range(count)]
        return Cluster.of(
            NodeClass(
                count=1,
                vcpus=vcpus or one.vcpus,
                slices=layouts[number % len(layouts)] if layouts else one.slices,
            )
            for number, one in enumerate(like)
        )

    def each(self) -> Iterator[NodeClass]:
        """The class of every node, in order."""
        for one in self.classes:
            yield from repeat(replace(one, count=1), one.count)

    @property
    def nodes(self) -> int:
        return sum(one.count for one in self.classes)

    @property
    def vcpus(self) -> int:
        """Of the node that has most."""
        return max(one.vcpus for one in self.classes)

    @property
    def vgpus(self) -> int:
        """Of the node that has most, whatever their kinds."""
        return max(len(one.slices) for one in self.classes)

    def kinds(self) -> tuple[str, ...]:
        """Those of its slices, each once."""
        return tuple(dict.fromkeys(kind for one in self.classes for kind in one.slices))

    def runs(self, config: Config) -> bool:
        """Whether a task with this config fits on any of its nodes, with nothing else there."""
        return any(
            config.vcpus <= one.vcpus and config.vgpus <= one.slices.count(config.kind)
            for one in self.classes
        )
