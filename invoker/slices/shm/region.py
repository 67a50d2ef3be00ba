"""Memory that this process and a Triton server on the same host both see.

A region is a file in /dev/shm which both have mapped; Triton calls it system shared memory. Tensors
of megabytes are written there once, instead of going through a socket and several buffers on each
side.
"""

import mmap
import os
from collections.abc import Iterable, Mapping
from typing import Any

from esg.files import MEMORY
from esg.invoker.tensors.arrays import Stacked

PREFIX = "esg-slices-"
"""What all names begin with: here, and where a server keeps them."""
SMALLEST = 2**20
ALIGNED = 64


def room(sizes: Iterable[int]) -> int:
    """What tensors of these sizes take, each where a processor likes it."""
    return sum(-(-size // ALIGNED) * ALIGNED for size in sizes)


class SharedRegion:
    """`name` is its name for the server, and that of its file."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._file = MEMORY / name
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(
                descriptor, 0, size
            )  # a full /dev/shm is an error now, no crash later
            self._memory = mmap.mmap(descriptor, size)
        except BaseException:
            self._file.unlink()
            raise
        finally:
            os.close(descriptor)

    def hold(
        self, request: Any, inputs: Iterable[Stacked], outputs: Mapping[str, int]
    ) -> dict[str, int]:
        """Put the inputs of a call here, leave room for its outputs, and let the request say so.

        The outputs are given with their sizes; one of size 0 is to come in the answer itself.
        Returns where the others will be.
        """
        offset = 0
        for tensor, given in zip(request.inputs, inputs, strict=True):
            end = offset
            for piece in given.pieces:
                self._memory[end : end + len(piece)] = piece
                end += len(piece)
            self._refer(tensor, offset, end - offset)
            offset += room([end - offset])
        places: dict[str, int] = {}
        for name, size in outputs.items():
            tensor = request.outputs.add(name=name)
            if size:
                self._refer(tensor, offset, size)
                places[name] = offset
                offset += room([size])
        return places

    def read(self, offset: int, size: int) -> bytes:
        """A copy: the next call overwrites what is here."""
        return self._memory[offset : offset + size]

    def close(self) -> None:
        """The server keeps its mapping until it is told, but nobody finds the file any more."""
        self._file.unlink(missing_ok=True)
        self._memory.close()

    def _refer(self, tensor: Any, offset: int, size: int) -> None:
        tensor.parameters["shared_memory_region"].string_param = self.name
        tensor.parameters["shared_memory_offset"].int64_param = offset
        tensor.parameters["shared_memory_byte_size"].int64_param = size


def size_for(needed: int) -> int:
    """Of a new region: the next power of two, so that few are ever made.

    >>> size_for(3_000_000)
    4194304
    """
    return max(SMALLEST, 1 << (needed - 1).bit_length())
