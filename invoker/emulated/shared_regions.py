"""System shared memory of an emulated slice, in Triton's words: regions that a caller has made and
registered, and the tensors that are in them."""

import mmap
import os
from dataclasses import dataclass
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as triton

from esg.errors import Rejected
from esg.files import MEMORY
from esg.invoker.emulated.repository import TritonRefusal


@dataclass(frozen=True, slots=True)
class _Region:
    key: str
    offset: int
    content: memoryview


class SharedRegions:
    def __init__(self) -> None:
        self._regions: dict[str, _Region] = {}

    async def register(self, request: Any) -> Any:
        name, key = request.name, request.key
        if name in self._regions:
            raise TritonRefusal(
                grpc.StatusCode.ALREADY_EXISTS, f"shared memory region '{name}' already in manager"
            )
        if "/" in key.removeprefix("/"):  # such as /../../etc/passwd
            raise Rejected(f"shared memory key '{key}' is no name in {MEMORY}")
        try:
            descriptor = os.open(MEMORY / key.removeprefix("/"), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            raise Rejected(f"Unable to open shared memory region: '{key}': {error}") from None
        try:
            mapped = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:  # an empty file is a ValueError
            raise Rejected(f"unable to map shared memory region '{key}': {error}") from None
        finally:
            os.close(descriptor)
        end = request.offset + request.byte_size
        if end > len(mapped):
            raise Rejected(f"shared memory region '{key}' has no {end} bytes")
        self._regions[name] = _Region(key, request.offset, mapped[request.offset : end])
        return triton.SystemSharedMemoryRegisterResponse()

    async def unregister(self, request: Any) -> Any:
        """One that a call still reads stays mapped until that has ended."""
        if request.name:
            self._regions.pop(request.name, None)
        else:
            self._regions.clear()
        return triton.SystemSharedMemoryUnregisterResponse()

    async def status(self, request: Any) -> Any:
        answer = triton.SystemSharedMemoryStatusResponse()
        for name, region in self._regions.items():
            if request.name in ("", name):
                found = answer.regions[name]
                found.name, found.key = name, region.key
                found.offset, found.byte_size = region.offset, len(region.content)
        return answer

    def content(self, tensor: Any) -> memoryview | None:
        """What a tensor of a request has there; None if it comes with the request."""
        given = tensor.parameters
        if "shared_memory_region" not in given:
            return None
        name = given["shared_memory_region"].string_param
        start = given["shared_memory_offset"].int64_param
        end = start + given["shared_memory_byte_size"].int64_param
        region = self._regions.get(name)
        if region is None:
            raise Rejected(f"Unable to find shared memory region: '{name}'")
        if not 0 <= start <= end <= len(region.content):
            raise Rejected(f"Invalid offset + byte size for shared memory region: '{name}'")
        return region.content[start:end]
