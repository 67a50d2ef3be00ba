"""The applications as this gateway knows them, with their inputs and outputs: its model repository.

The controller is asked, for all of them at once, and what it said is good for a moment: how long an
update that was made through another gateway may go unnoticed. Changes made through this one show at
once.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from esg.core.catalog.ports import PLAIN_INPUT, Port, Ports, described, is_plain
from esg.errors import Fault
from esg.gateway.applications import Applications
from esg.names import OWNER_MARK
from esg.protos import model_v1_pb2 as wire
from esg.runtime.rpc.status import InvalidRequest, NotFound
from esg.runtime.security.ownership import owned, seen
from esg.runtime.wire.ports import port_from_wire
from esg.suggest import did_you_mean

FRESH_S = 1.0
"""After so long the controller is asked again, while what is known is still used."""
USABLE_S = 5.0
"""After so long it is waited for."""


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """An output of an application: the stage that gives it, and what it is called there."""

    port: Port
    stage: str
    name: str


@dataclass(frozen=True, slots=True)
class Model:
    """An application, as a client calls it."""

    name: str
    version: str
    inputs: Ports
    outputs: Mapping[str, ModelOutput]
    packed_stages: frozenset[str]
    """The last stages whose outputs are several, or tensors, packed in one blob."""

    @property
    def packs(self) -> bool:
        """Whether its payload is packed parts, and not a blob as it is."""
        return not is_plain(self.inputs)

    def check_version(self, version: str) -> None:
        if version not in ("", self.version):
            raise NotFound(
                f"unknown version {version[:40]!r} of {self.name}: {self.version} is there; leave "
                "the version out for the latest"
            )

    @property
    def expected(self) -> str:
        return f"{self.name} takes {described(self.inputs)}"


class ModelDirectory:
    def __init__(self, applications: Applications, clock_s: Callable[[], float]) -> None:
        self._applications = applications
        self._clock_s = clock_s
        self._told: dict[str, wire.Application] = {}
        self._inside: dict[str, Model] = {}
        self._asked_s: float | None = None
        self._asking: asyncio.Task[None] | None = None
        self._changes, self._asked_at = 0, 0

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Around a change: afterwards the controller is asked before anything else is answered."""
        try:
            yield
        finally:
            self._asked_s, self._changes = None, self._changes + 1

    def known(self, name: str, owner: str) -> Model | None:
        """What is known of an application now, without asking; a client's own goes first."""
        inside = self._inside
        if not owner:
            return inside.get(name)
        if OWNER_MARK in name:
            return None
        own = inside.get(owned(owner, name))
        return inside.get(name) if own is None else replace(own, name=name)

    def inside(self, name: str, owner: str) -> str:
        """What the mesh calls an application that its client calls so."""
        own = owned(owner, name)
        return own if own in self._inside else name

    def packs(self, name: str, owner: str) -> bool:
        """Whether an application's payloads are packed parts, as far as that is known now."""
        model = self.known(name, owner)
        return model is not None and model.packs

    async def find(self, name: str, owner: str, version: str = "") -> Model:
        """An application by the name that its client has for it."""
        await self._refresh()
        found = self.known(name, owner)
        if found is None and self._aged():
            await self._ask()
            found = self.known(name, owner)
        if found is None:
            names = [model.name for model in self._seen(owner)]
            raise NotFound(did_you_mean("model", name, names))
        found.check_version(version)
        return found

    async def all(self, owner: str) -> list[Model]:
        await self._refresh()
        return self._seen(owner)

    def _seen(self, owner: str) -> list[Model]:
        names = {seen(owner, inside) for inside in self._inside} - {None}
        found = [self.known(name, owner) for name in sorted(map(str, names))]
        return [model for model in found if model is not None]

    async def _refresh(self) -> None:
        """Have what is known be fresh enough. If the controller cannot be asked, what was known
        will do, for as long as it says nothing else."""
        age_s = None if self._asked_s is None else self._clock_s() - self._asked_s
        if age_s is not None and age_s < FRESH_S:
            return
        if age_s is not None and age_s < USABLE_S:
            self._begin()
            return
        try:
            await self._ask()
        except Fault:
            if not self._inside:
                raise

    def _aged(self) -> bool:
        """Whether something new may be there; whoever asks for what is not must not have the
        controller asked each time."""
        return self._asked_s is None or self._clock_s() - self._asked_s >= FRESH_S / 10

    async def _ask(self) -> None:
        changes = -1
        while (
            changes != self._changes
        ):  # of what was asked before a change nobody knows if it has it
            changes = self._changes
            await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        """All who wait share one question."""
        if self._asking is None or self._asking.done() or self._asked_at != self._changes:
            self._asked_at = self._changes
            self._asking = asyncio.create_task(self._learn())
            self._asking.add_done_callback(_looked_at)
        return self._asking

    async def _learn(self) -> None:
        asked_s, changes = self._clock_s(), self._changes
        found = await self._applications.all("")
        if changes == self._changes:
            self._take(found)
            self._asked_s = asked_s

    def _take(self, applications: Iterable[wire.Application]) -> None:
        """Of those that are as they were, what was made of them is kept."""
        told, before = self._told, self._inside
        self._told = {application.name: application for application in applications}
        self._inside = {
            name: before[name] if told.get(name) == application else model_of(application)
            for name, application in self._told.items()
        }


def model_of(told: wire.Application) -> Model:
    outputs = {
        output.name: ModelOutput(port_from_wire(output), output.stage, output.output)
        for output in told.outputs
    }
    by_stage: dict[str, list[Port]] = {}
    for output in outputs.values():
        by_stage.setdefault(output.stage, []).append(output.port)
    return Model(
        name=told.name,
        version=str(told.version),
        inputs=tuple(map(port_from_wire, told.inputs)) or PLAIN_INPUT,
        outputs=outputs,
        packed_stages=frozenset(s for s, ports in by_stage.items() if not is_plain(tuple(ports))),
    )


def _looked_at(asking: "asyncio.Task[None]") -> None:
    """Whoever did not wait for it is not concerned with what went wrong."""
    if not asking.cancelled():
        asking.exception()


def check_known(model: Model, given: Iterable[str]) -> None:
    """Refuse inputs that are not a model's, or are not there."""
    names = [port.name for port in model.inputs]
    found = list(given)
    for name in found:
        if name not in names:
            raise InvalidRequest(f"{did_you_mean('input', name, names)} {model.expected}")
        if found.count(name) > 1:
            raise InvalidRequest(f"input {name} is given twice; {model.expected}")
    missing = [name for name in names if name not in found]
    if missing:
        raise InvalidRequest(f"input {', '.join(missing)} is missing; {model.expected}")
