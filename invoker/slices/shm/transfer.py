"""Calls to one slice on this host whose tensors do not go over the wire.

A slice has one region at a time, as large as its largest call of late and no larger than the limit;
what does not fit goes over the wire, and so do small calls, which gain nothing. How large a model's
outputs will be must be said beforehand: they are as large as the last time that inputs of the same
shapes were given. A model that does not keep to that gets its outputs over the wire from then on.

A region whose call was given up is not used again, because the server may still write to it; it is
unregistered as soon as the server agrees.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as triton

from esg.errors import Fault
from esg.files import MEMORY
from esg.invoker.slices.shm.region import PREFIX, SharedRegion, room, size_for
from esg.invoker.tensors.arrays import Array, Stacked, outputs_of, raw_size
from esg.runtime.logs import about

log = logging.getLogger(__name__)

WORTH_IT_BYTES = 2**16
MOST_RETIRED = 4
MOST_SHAPES = 256
REGISTER_S = 10.0
FADING = 8
"""After five looks, a call counts for half of what it needed."""
PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""What a server that is being started, or has much to do, answers with."""

Ask = Callable[[bytes], Awaitable[Any]]
Shapes = tuple[str, tuple[tuple[str, str, tuple[int, ...]], ...]]


class SharedMemoryRefused(Fault):
    """What a model gave does not fit where it was to be put."""


class SharedMemory:
    """The shared memory of one slice. `name` is what its regions' names begin with."""

    def __init__(self, name: str, limit_bytes: int) -> None:
        self._name = name
        self._limit_bytes = limit_bytes
        self._made = 0
        self._region: SharedRegion | None = None
        self._in_use = False
        self._most_bytes = 0
        """What the largest call needed; less with every look at it."""
        self._retired: list[str] = []
        self._expected: dict[Shapes, dict[str, int]] = {}
        """Bytes per job of each output, by the shapes of the inputs; 0 for those on the wire."""

    async def call(
        self, server: Any, request: Any, inputs: Sequence[Stacked], ask: Ask
    ) -> dict[str, Array] | None:
        """What the model gives; None if this call is better made over the wire.

        `request` has no contents yet, and is left as it is.
        """
        jobs = inputs[0].shape[0]
        shapes = _shapes(request, inputs)
        sizes = {name: jobs * size for name, size in self._expected.get(shapes, {}).items()}
        needed = room([*(given.size for given in inputs), *sizes.values()])
        if needed < WORTH_IT_BYTES or self._in_use:
            return None
        self._in_use = True
        self._most_bytes = max(self._most_bytes, needed)
        try:
            region = await self._region_of(server, needed)
            if region is None:
                return None
            return await self._through(region, request, inputs, shapes, sizes, ask)
        finally:
            self._in_use = False

    async def _through(
        self,
        region: SharedRegion,
        request: Any,
        inputs: Sequence[Stacked],
        shapes: Shapes,
        sizes: dict[str, int],
        ask: Ask,
    ) -> dict[str, Array] | None:
        shared = triton.ModelInferRequest()
        shared.CopyFrom(request)
        try:
            places = region.hold(shared, inputs, sizes)
            answer = await ask(shared.SerializeToString())
            found = {
                tensor.name: region.read(places[tensor.name], raw_size(tensor))
                for tensor in answer.outputs
                if tensor.name in places
            }
        except BaseException as error:
            self._retire()
            if sizes and isinstance(error, SharedMemoryRefused):
                self._expected[shapes] = dict.fromkeys(sizes, 0)
                return None
            raise
        outputs = outputs_of(answer, found)
        self._learn(shapes, inputs[0].shape[0], outputs)
        return outputs

    async def give_back(self, server: Any) -> None:
        """Let go of a region that is much larger than calls have needed since the last looks."""
        region = self._region
        if region is not None and not self._in_use and size_for(self._most_bytes) < region.size:
            self._in_use = True  # calls go over the wire meanwhile
            try:
                self._retire()
                await self._unregister_retired(server)
            finally:
                self._in_use = False
        self._most_bytes -= self._most_bytes // FADING

    def close(self) -> None:
        """The server is gone, or will not be called again."""
        if self._region is not None:
            self._retire()
        self._retired.clear()

    def _learn(self, shapes: Shapes, jobs: int, outputs: dict[str, Array]) -> None:
        if shapes not in self._expected:
            if len(self._expected) >= MOST_SHAPES:
                self._expected.clear()
            self._expected[shapes] = {
                name: 0 if array.dtype == object else array.nbytes // jobs
                for name, array in outputs.items()
            }

    async def _region_of(self, server: Any, needed: int) -> SharedRegion | None:
        """One that is large enough, and that the server knows."""
        if self._region is not None and self._region.size >= needed:
            return self._region
        size = size_for(needed)
        if size > self._limit_bytes:
            return None
        if self._region is not None:
            self._retire()
        if not self._made:
            await self._find_left(server)
        await self._unregister_retired(server)
        if len(self._retired) >= MOST_RETIRED:
            return None
        self._made += 1
        try:
            region = SharedRegion(f"{self._name}-{self._made}", size)
        except OSError as error:
            log.warning("no shared memory", extra=about(reason=str(error)))
            return None
        message = triton.SystemSharedMemoryRegisterRequest(
            name=region.name, key=f"/{region.name}", byte_size=size
        )
        try:
            await server.SystemSharedMemoryRegister(message, timeout=REGISTER_S)
        except BaseException as error:
            region.close()
            if not isinstance(error, grpc.aio.AioRpcError):
                raise
            log.warning("no shared memory", extra=about(reason=error.details()))
            if error.code() not in PASSING:
                self._limit_bytes = 0  # it cannot see our memory, and will not
            return None
        self._region = region
        return region

    def _retire(self) -> None:
        if self._region is not None:
            self._region.close()
            self._retired.append(self._region.name)
            self._region = None

    async def _find_left(self, server: Any) -> None:
        """What a node that crashed has left with a server that did not: names without files."""
        asked = triton.SystemSharedMemoryStatusRequest()
        with suppress(grpc.aio.AioRpcError):
            known = await server.SystemSharedMemoryStatus(asked, timeout=REGISTER_S)
            names = [name for name in known.regions if name.startswith(PREFIX)]
            self._retired += [name for name in names if not (MEMORY / name).exists()]

    async def _unregister_retired(self, server: Any) -> None:
        for name in self._retired.copy():
            message = triton.SystemSharedMemoryUnregisterRequest(name=name)
            try:
                await server.SystemSharedMemoryUnregister(message, timeout=REGISTER_S)
            except grpc.aio.AioRpcError:
                continue  # a call that was given up still uses it
            self._retired.remove(name)


def _shapes(request: Any, inputs: Sequence[Stacked]) -> Shapes:
    return request.model_name, tuple(
        (given.name, given.datatype, given.shape[1:]) for given in inputs
    )
