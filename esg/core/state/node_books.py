"""The books of nodes: who holds which vCPUs and which slices, and which models are where.

Every vCPU and every slice is free or has exactly one holder, a task. Taking what is not free, or
giving back what is not held, is a `Bug`. A slice runs one task at a time and keeps the models of
several functions within its memory; loading one in the background does not disturb a running task.

A task that runs in phases is not on its slices for all of its time. When it is expected to leave
one soon, that is free again in these books, so that the next task can get ready meanwhile: a slice
is promised one ahead (`SliceBooks.ahead`), and never further.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import ClassVar

from msgspec import field

from esg.core.catalog.config import Config
from esg.core.catalog.slice_kinds import USUAL, counts
from esg.core.messages.codec import Record
from esg.core.state.eviction import Worth, by_age_alone, victims_of
from esg.core.state.health import FailedLoads
from esg.errors import Bug
from esg.units import NEVER_US


class Resident(Record):
    """A function's model on a slice: being loaded, or ready."""

    memory_mb: int
    ready: bool
    used_us: int


class SliceBooks(Record):
    """One slice's part of the books. Its holder is on it, or will be when the task `ahead` of it
    has left, which is expected at `ahead_until_us`."""

    memory_mb: int
    memory_free_mb: int
    kind: str = USUAL
    holder: str = ""
    ahead: str = ""
    ahead_until_us: int = 0
    usable: bool = True
    residents: dict[str, Resident] = field(default_factory=dict)
    failed_loads: dict[str, FailedLoads] = field(default_factory=dict)

    def quarantines(self, function: str) -> bool:
        """Whether a function's model is not to be loaded here, because that has failed lately."""
        failed = self.failed_loads.get(function)
        return failed is not None and failed.until_us > 0

    def can_load(self, function: str, memory_mb: int) -> bool:
        """Whether the function's model is not here, and could be without any other having to go."""
        room = self.usable and self.memory_free_mb >= memory_mb
        return room and function not in self.residents and not self.quarantines(function)

    def fits_if_emptied(self, memory_mb: int) -> bool:
        """Whether this much fits if those models go that are not being loaded."""
        idle_mb = sum([r.memory_mb for r in self.residents.values() if r.ready])
        return memory_mb <= self.memory_free_mb + idle_mb

    def evictable(self, memory_mb: int, worth: Worth = by_age_alone) -> list[str] | None:
        """The models that must go so that this much fits; None if it never does."""
        missing_mb = memory_mb - self.memory_free_mb
        if missing_mb <= 0:
            return []
        idle = [
            (worth(name), r.used_us, name, r.memory_mb)
            for name, r in self.residents.items()
            if r.ready
        ]
        victims, missing_mb = victims_of(idle, missing_mb)
        return victims if missing_mb <= 0 else None


class Taken(Record):
    """What a task got on its invoker, and which models had to make room for it."""

    slices: tuple[int, ...]
    dropped: list[tuple[int, str]]


Changed = list[dict[str, None]]
"""Where a node's name is put down when it changes."""


class NodeBooks(Record, dict=True, gc=True):
    """One invoker's page in the books. `instances` counts its slices that have, or are loading,
    each function's model; `vgpus_free` those that are usable and free, and `free_of` how many of
    those are of each kind. It has `had` those functions' models that were ever loaded there: their
    files are in its memory.

    What changes is noted for those who watch (`indexed_nodes`), which is not written down.
    """

    _on_room: ClassVar[Changed] = []
    _on_models: ClassVar[Changed] = []

    invoker: str
    vcpus: int
    slices: list[SliceBooks]
    vcpus_free: int
    vgpus_free: int
    free_of: dict[str, int]
    promised: int = 0  # slices that tasks are on and others may have, or have, next
    instances: dict[str, int] = field(default_factory=dict)
    had: list[str] = field(default_factory=list)

    @staticmethod
    def of(
        invoker: str, vcpus: int, memories_mb: Sequence[int], kinds: Iterable[str] = repeat(USUAL)
    ) -> "NodeBooks":
        """An invoker with nothing running and nothing loaded."""
        slices = [SliceBooks(mb, mb, kind) for mb, kind in zip(memories_mb, kinds, strict=False)]
        free_of = counts(part.kind for part in slices)
        return NodeBooks(invoker, vcpus, slices, vcpus, len(slices), free_of)

    def watched_by(self, on_room: Changed, on_models: Changed) -> None:
        """From now on, note changes of what is free, and of which models are where."""
        self.__dict__.update(_on_room=on_room, _on_models=on_models)

    def _room_changed(self) -> None:
        for changed in self._on_room:
            changed[self.invoker] = None

    def _models_changed(self) -> None:
        """What is free for a function depends on models, too."""
        self._room_changed()
        for changed in self._on_models:
            changed[self.invoker] = None

    def fits(self, config: Config) -> bool:
        return self.has_free(config.vcpus, config.vgpus, config.kind)

    def has_free(self, vcpus: int, vgpus: int, kind: str) -> bool:
        return self.vcpus_free >= vcpus and self.free_of.get(kind, 0) >= vgpus

    def count_kinds(self) -> dict[str, int]:
        """How many slices it has of each kind."""
        return counts(part.kind for part in self.slices)

    def count_instances(self, function: str, kinds: Collection[str]) -> int:
        """How many of its slices of these kinds have, or are loading, a function's model."""
        if all(kind in kinds for kind in self.free_of):
            return self.instances.get(function, 0)
        return sum(part.kind in kinds and function in part.residents for part in self.slices)

    def kinds(self) -> list[str]:
        """Those of its slices, in order or not, each once."""
        return list(self.free_of)

    def _slice_is_free(self, part: SliceBooks, by: int) -> None:
        """Count a slice as free, or with -1 as not free any more."""
        self.vgpus_free += by
        self.free_of[part.kind] += by

    def warm_free(self, function: str, count: int, kind: str) -> list[int]:
        """Free slices of a kind that have the function's model ready, no more than so many: first
        those that nobody is on, then those that will be left soonest."""
        found: list[int] = []
        if self.vgpus_free and function in self.instances:
            for index, part in enumerate(self.slices):
                if not part.holder and part.usable and part.kind == kind:
                    resident = part.residents.get(function)
                    if resident is not None and resident.ready:
                        found.append(index)
                        if len(found) == count and not self.promised:
                            return found
        if self.promised:
            found.sort(key=self.left_us)
            del found[count:]
        return found

    def left_us(self, index: int) -> int:
        """When the task is expected to leave a slice that is on it and has promised it; 0 if there
        is none."""
        return self.slices[index].ahead_until_us

    def count_warm_free(self, function: str, kind: str) -> int:
        """How many free slices of a kind have the function's model ready."""
        return len(self.warm_free(function, len(self.slices), kind))

    def count_warm_idle(self, function: str, kind: str) -> int:
        """How many of those nobody is on."""
        warm = self.warm_free(function, len(self.slices), kind)
        return sum([not self.left_us(index) for index in warm]) if self.promised else len(warm)

    def next_warm_us(self, function: str, kind: str) -> int:
        """When the first of those will be left that somebody is on."""
        warm = self.warm_free(function, len(self.slices), kind) if self.promised else ()
        return next((self.left_us(index) for index in warm if self.left_us(index)), NEVER_US)

    def has_memory_for(self, function: str, memory_mb: int, kinds: Collection[str]) -> bool:
        """Whether a slice of these kinds could load the model without any other having to go."""
        return any(p.kind in kinds and p.can_load(function, memory_mb) for p in self.slices)

    def pick(self, function: str, memory_mb: int, count: int, kind: str) -> list[int] | None:
        """Free slices of a kind for a task: warm ones first, then loading, then those with most
        room."""
        warm = self.warm_free(function, count, kind)
        if len(warm) == count:
            return warm
        return self._pick_colder(warm, function, memory_mb, count, kind)

    def _pick_colder(
        self, warm: list[int], function: str, memory_mb: int, count: int, kind: str
    ) -> list[int] | None:
        others = [
            (function not in part.residents, -part.memory_free_mb, index)
            for index, part in enumerate(self.slices)
            if part.usable
            and part.kind == kind
            and not part.holder
            and index not in warm
            and (
                function in part.residents
                or (
                    not part.ahead
                    and part.fits_if_emptied(memory_mb)
                    and not part.quarantines(function)
                )
            )
        ]
        picked = warm + [index for _, _, index in sorted(others)]
        return picked[:count] if len(picked) >= count else None

    def can_give(self, vcpus: int, slices: Iterable[int]) -> bool:
        """Whether just these slices are there and free, and that many vCPUs."""
        wanted = list(slices)
        return (
            0 <= vcpus <= self.vcpus_free
            and len(set(wanted)) == len(wanted)
            and all(0 <= i < len(self.slices) and not self.slices[i].holder for i in wanted)
        )

    def give(self, task: str, vcpus: int, slices: Iterable[int]) -> None:
        """Note that a task holds these."""
        for index in slices:
            part = self.slices[index]
            if part.holder:
                raise Bug(f"{self.invoker} slice {index} is held by {part.holder}, not free")
            part.holder = task
            self._slice_is_free(part, -part.usable)
        self.vcpus_free -= vcpus
        self._room_changed()

    def take(
        self,
        task: str,
        function: str,
        memory_mb: int,
        config: Config,
        now_us: int,
        picked: list[int] | None = None,
        worth: Worth = by_age_alone,
    ) -> Taken:
        """Give a task what its config says; on slices that have just been picked, if any. `worth`
        says which models go if there is no room for its own."""
        if picked is None:
            picked = self.pick(function, memory_mb, config.vgpus, config.kind)
        if picked is None or len(picked) != config.vgpus or self.vcpus_free < config.vcpus:
            raise Bug(f"{self.invoker} cannot give {config} to {task}: it has not got as much free")
        dropped: list[tuple[int, str]] = []
        self.give(task, config.vcpus, picked)
        for index in picked:
            resident = self.slices[index].residents.get(function)
            if resident is not None:
                resident.used_us = now_us
            else:
                gone = self.load(index, function, memory_mb, now_us, worth=worth)
                dropped += zip(repeat(index), gone)
        return Taken(tuple(picked), dropped)

    def release(self, task: str, vcpus: int, slices: Iterable[int]) -> None:
        """Take back what a task held."""
        for index in slices:
            part = self.slices[index]
            if part.ahead == task:
                part.ahead, part.ahead_until_us = "", 0
                self.promised -= 1
                continue
            if part.holder != task:
                raise Bug(f"{self.invoker} slice {index} is held by {part.holder!r}, not by {task}")
            part.holder = ""
            self._slice_is_free(part, part.usable)
        self.vcpus_free += vcpus
        self._room_changed()

    def give_back(self, vcpus: int) -> None:
        """Take back some of the vCPUs that a task held."""
        self.vcpus_free += vcpus
        self._room_changed()

    def promise(self, task: str, slices: Iterable[int], until_us: int) -> None:
        """A task is expected to leave these slices then, which is not 0: from now on they may be
        given to the next one, unless somebody else is still on them."""
        for index in slices:
            part = self.slices[index]
            if part.holder == task and not part.ahead:
                part.holder, part.ahead, part.ahead_until_us = "", task, until_us
                self.promised += 1
                self._slice_is_free(part, part.usable)
        self._room_changed()

    def tasks(self) -> list[str]:
        """Those that are on slices or have been promised some, each once."""
        found = [part.holder for part in self.slices if part.holder]
        if self.promised:
            found = [name for part in self.slices for name in (part.ahead, part.holder) if name]
        return list(dict.fromkeys(found))

    def load(
        self,
        index: int,
        function: str,
        memory_mb: int,
        now_us: int,
        *,
        ready: bool = False,
        worth: Worth = by_age_alone,
    ) -> list[str]:
        """Note a model that is being loaded (or is ready); returns the models that must go."""
        part = self.slices[index]
        victims = part.evictable(memory_mb, worth)
        if victims is None:
            raise Bug(f"{self.invoker} slice {index} has no room for {function}")
        for name in victims:
            self.forget(index, name)
        part.residents[function] = Resident(memory_mb, ready=ready, used_us=now_us)
        if ready:
            part.failed_loads.pop(function, None)
        part.memory_free_mb -= memory_mb
        self.instances[function] = self.instances.get(function, 0) + 1
        self._models_changed()
        return victims

    def forget(self, index: int, function: str) -> None:
        """Note that a model is gone; no matter if it was not there."""
        part = self.slices[index]
        resident = part.residents.pop(function, None)
        if resident is not None:
            part.memory_free_mb += resident.memory_mb
            self.instances[function] -= 1
            if not self.instances[function]:
                del self.instances[function]
            self._models_changed()

    def set_usable(self, index: int, usable: bool) -> None:
        """A slice has lost its server, with all models there, or is back. A task that holds it
        keeps it until it has ended."""
        part = self.slices[index]
        if part.usable != usable:
            part.usable = usable
            if not part.holder:
                self._slice_is_free(part, 1 if usable else -1)
            for function in list(part.residents):
                self.forget(index, function)
            self._models_changed()

    def quarantine_load(self, index: int, function: str, until_us: int) -> None:
        """Do not load a function's model on this slice until then."""
        failed = self.slices[index].failed_loads.setdefault(function, FailedLoads())
        failed.count += 1
        failed.until_us = until_us
        self._models_changed()

    def release_loads(self, now_us: int) -> int:
        """Models whose time is over may be loaded again where that has failed; returns when the
        next one's is, if there are more."""
        next_us = NEVER_US
        for part in self.slices:
            for failed in part.failed_loads.values():
                if failed.until_us > now_us:
                    next_us = min(next_us, failed.until_us)
                elif failed.until_us:
                    failed.until_us = 0
                    self._models_changed()
        return next_us

    def mark_ready(self, index: int, function: str, now_us: int) -> None:
        """A model has been loaded; no matter if it was given up meanwhile."""
        part = self.slices[index]
        resident = part.residents.get(function)
        if resident is not None and not resident.ready:
            resident.ready = True
            resident.used_us = now_us
            part.failed_loads.pop(function, None)
            self._models_changed()

    def mark_used(self, index: int, function: str, now_us: int) -> None:
        """A model was in use until now, so it has been loaded."""
        resident = self.slices[index].residents.get(function)
        if resident is not None:
            if not resident.ready:
                self.mark_ready(index, function, now_us)
            resident.used_us = now_us
