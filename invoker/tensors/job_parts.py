"""What goes in and out of functions that declare more than a blob: named parts, and arrays.

A job's inputs are blobs: the request's payload, or outputs of the stages before. A function with
several inputs, or with tensors, has them in the parts of its payload, or of those outputs
(`esg.parts`); which part goes where, the registration of its application has checked by the same
rules (`catalog.ports`). Its handler gets arrays and bytes by the inputs' names. Without a handler
they are the tensors of its model, bytes as one byte string. It is the same the other way round.

Emulated slices get the blobs as they are. What they answer with is made into outputs such as the
function declares.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tritonclient.utils import triton_to_np_dtype

from esg.core.catalog.model import Catalog, Function
from esg.core.catalog.ports import Port, Source, connected, described, is_plain
from esg.core.messages.task_order import Input, Payload
from esg.errors import Fault, Rejected
from esg.invoker.handlers.handler import InvalidInput
from esg.invoker.tensors.arrays import (
    Array,
    Tensors,
    array_of,
    byte_strings,
    datatype,
    encoded,
    plain_input,
    plain_output,
)
from esg.parts import Part, is_packed, packed, unpacked
from esg.tensors import BYTES, Piece

Given = list[Piece] | dict[str, Array | bytes]
"""A job's inputs: blobs, or what is in them by name."""


def parted_functions(catalog: Catalog, *, emulated: bool) -> dict[str, "FunctionParts"]:
    """The functions whose inputs or outputs are not just blobs as they are, or may have to be
    picked from what a stage before gives; of most catalogs none."""
    functions = catalog.functions.values()
    picking = any(len(function.outputs) > 1 for function in functions)
    kind = EmulatedParts if emulated else FunctionParts
    return {
        function.name: kind(function)
        for function in functions
        if picking or not (is_plain(function.inputs) and is_plain(function.outputs))
    }


class FunctionParts:
    """Of one function: what is read from blobs, and what is written into one."""

    def __init__(self, function: Function) -> None:
        self._inputs, self._outputs = function.inputs, function.outputs
        self._packs, self._reads_blobs = not is_plain(self._outputs), is_plain(self._inputs)
        self._handled = bool(function.handler)
        self.arrays = not self._handled
        """Whether jobs go to the model as arrays though no handler made them."""
        self.named = self._packs and self._handled
        """Whether the handler gives its outputs by name."""

    def read(self, sources: Sequence[Input], blobs: Sequence[Piece]) -> Given | Tensors:
        """A job's inputs as its handler, or else its model, gets them."""
        try:
            found = self._read(sources, blobs)
        except Rejected as error:
            raise InvalidInput(str(error)) from None
        if self._handled:
            return found
        if isinstance(found, dict):
            return {name: _tensor(value) for name, value in found.items()}
        return plain_input(found)

    def _read(self, sources: Sequence[Input], blobs: Sequence[Piece]) -> Given:
        every = [self._parts(s, blob) for s, blob in zip(sources, blobs, strict=True)]
        fed = connected(self._inputs, [[part.name for part in parts] for parts in every])
        if self._reads_blobs:
            return [_picked(every, source).content for source in fed[self._inputs[0].name]]
        found: dict[str, Array | bytes] = {}
        for port in self._inputs:
            ((place, name),) = fed[port.name]
            found[port.name] = _value(port, _picked(every, (place, name)))
        return found

    def _parts(self, source: Input, blob: Piece) -> list[Part]:
        """The parts of a blob. Of a payload that is read as it is, nothing is looked for in it."""
        if not is_packed(blob) or (self._reads_blobs and isinstance(source, Payload)):
            return [Part("", blob)]
        return unpacked(blob)

    def write(self, made: Any) -> bytes:
        """A stage's output, of what its handler or its model gives."""
        if not self._packs:
            return plain_output(made) if self.arrays else bytes(made)
        if set(made) != {port.name for port in self._outputs}:
            raise Fault(f"gave {', '.join(made)}, where {described(self._outputs)} is declared")
        return packed(_part(port, made[port.name]) for port in self._outputs)


class EmulatedParts(FunctionParts):
    """The same on emulated slices."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.arrays = self.named = False

    def read(self, sources: Sequence[Input], blobs: Sequence[Piece]) -> Given | Tensors:
        return list(blobs)

    def write(self, made: Any) -> bytes:
        if not self._packs:
            return bytes(made)
        return packed(_emulated(port, made) for port in self._outputs)


def _picked(every: Sequence[Sequence[Part]], source: Source) -> Part:
    place, name = source
    return next(part for part in every[place] if not name or part.name == name)


def _value(port: Port, part: Part) -> Array | bytes:
    if not port.datatype:
        if part.datatype:
            raise Rejected(f"{port.name} is {port.kind}, and was given {part.datatype}")
        return bytes(part.content)
    if not port.takes(part.datatype, part.shape):
        given = f"{part.datatype} {list(part.shape)}" if part.datatype else "bytes"
        raise Rejected(f"{port.name} is {port.kind}, and was given {given}; send such a tensor")
    return array_of(part.datatype, part.shape, part.content)


def _tensor(value: Array | bytes) -> Array:
    return byte_strings([value]) if isinstance(value, bytes) else value


def _part(port: Port, value: Any) -> Part:
    """What a handler or a model gives for an output, which must be what is declared."""
    if not port.datatype:
        if isinstance(value, np.ndarray) and value.dtype == np.object_ and value.size == 1:
            value = value.ravel()[0]  # a model has no bytes but these
        if isinstance(value, bytes | bytearray | memoryview):
            return Part(port.name, bytes(value))
        raise Fault(f"gave {type(value).__name__} for {port.name}, where bytes are declared")
    if not isinstance(value, np.ndarray) or not port.takes(datatype(value), value.shape):
        given = (
            f"{datatype(value)} {list(value.shape)}"
            if isinstance(value, np.ndarray)
            else type(value).__name__
        )
        raise Fault(f"gave {given} for {port.name}, where {port.kind} is declared")
    return Part(port.name, b"".join(encoded(value)), port.datatype, value.shape)


def _emulated(port: Port, digest: bytes) -> Part:
    """A part such as is declared, of the bytes of a digest; open dimensions have a length of 1."""
    if not port.datatype:
        return Part(port.name, digest)
    shape = tuple(max(1, length) for length in port.shape)
    count = math.prod(shape)
    if port.datatype == BYTES:
        values = byte_strings([digest] * count)
    else:
        small = np.resize(np.frombuffer(digest, np.uint8) % 2, count)
        values = small.astype(triton_to_np_dtype(port.datatype))
    return Part(port.name, b"".join(encoded(values)), port.datatype, shape)
