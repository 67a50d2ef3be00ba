"""Arrays of jobs as the tensors of one call to a model, and back.

Every job brings an array per input of the model, without the batch dimension; jobs whose arrays
are alike are stacked into one call. Byte strings are arrays of Python objects. A function without a
CPU part of its own has one input and one output of byte strings: `INPUT`, an element per input of
the job, and `OUTPUT`, one element.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

from esg.errors import Fault, Rejected
from esg.tensors import BYTES, Piece, behind_lengths, elements_of

INPUT, OUTPUT = "INPUT", "OUTPUT"

Array = NDArray[Any]
Tensors = Mapping[str, Array]
Signature = tuple[tuple[str, str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Stacked:
    """One input of a call: all its jobs' arrays, one behind the other. The shape begins with how
    many there are."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    pieces: list[Piece]

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


def byte_strings(contents: Sequence[Piece]) -> Array:
    """An array of them; numpy left alone would read the contents themselves as arrays."""
    array = np.empty(len(contents), dtype=np.object_)
    for position, content in enumerate(contents):
        array[position] = content
    return array


def plain_input(contents: Sequence[Piece]) -> Tensors:
    """What a function without a handler gives its model."""
    return {INPUT: byte_strings(contents)}


def plain_output(outputs: Tensors) -> bytes:
    """What such a model made of it."""
    if list(outputs) != [OUTPUT] or outputs[OUTPUT].dtype != np.object_:
        raise Fault(
            f"the model gives {_described(outputs)}, not one tensor {OUTPUT} of byte strings; "
            "only a handler can make something else of it"
        )
    elements = outputs[OUTPUT].ravel()
    if len(elements) != 1:
        raise Fault(f"the model gives {len(elements)} byte strings for a job, not one")
    return bytes(elements[0])


def checked(tensors: Any) -> dict[str, Array]:
    """What a handler prepared, ready to be sent; anything else is a TypeError."""
    if not isinstance(tensors, Mapping) or not tensors:
        raise TypeError(f"it gave {_kind(tensors)} where arrays by the model's inputs are wanted")
    found: dict[str, Array] = {}
    for name, array in tensors.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise TypeError(f"it gave {_kind(array)} for {name!r}, where an array is wanted")
        if array.dtype.kind in "SU":
            array = np.array([_encoded(item) for item in array.flat], np.object_).reshape(
                array.shape
            )
        if np_to_triton_dtype(array.dtype) is None:
            raise TypeError(f"{name!r} has elements of type {array.dtype}, unknown to Triton")
        if array.dtype == np.object_:
            found[name] = array
        else:
            found[name] = np.require(array, requirements="C")
    return found


def signature(job: Tensors) -> Signature:
    """What jobs have in common that can share a call."""
    return tuple((name, datatype(array), array.shape) for name, array in sorted(job.items()))


def alike(jobs: Sequence[Tensors | Sequence[Piece]]) -> list[list[int]]:
    """Positions of jobs that can share a call, in order of the first of each group. Jobs that are
    byte strings can if they have as many.

    >>> ones, twos = {"X": np.zeros(1)}, {"X": np.zeros(2)}
    >>> alike([ones, twos, ones]), alike([[b"one"], [b"other"], [b"two", b"of them"]])
    ([[0, 2], [1]], [[0, 1], [2]])
    """
    groups: dict[Signature | int, list[int]] = {}
    for position, job in enumerate(jobs):
        kind = signature(job) if isinstance(job, Mapping) else len(job)
        groups.setdefault(kind, []).append(position)
    return list(groups.values())


def stacked(jobs: Sequence[Tensors]) -> list[Stacked]:
    """The inputs of a call for jobs that are alike."""
    return [
        Stacked(name, kind, (len(jobs), *shape), [p for job in jobs for p in encoded(job[name])])
        for name, kind, shape in signature(jobs[0])
    ]


def datatype(array: Array) -> str:
    return str(np_to_triton_dtype(array.dtype))


def array_of(datatype: str, shape: Sequence[int], content: Piece) -> Array:
    """A tensor from its raw content, which is not copied unless it has byte strings."""
    if datatype == BYTES:
        try:
            found = byte_strings([bytes(element) for element in elements_of(content)])
        except Rejected as error:
            raise Fault(str(error)) from None
    else:
        kind = triton_to_np_dtype(datatype)
        if kind is None:
            raise Fault(f"the model gives a tensor of type {datatype}, unknown here")
        if len(content) % np.dtype(kind).itemsize:
            raise Fault(f"a tensor of {datatype} has {len(content)} bytes")
        found = np.frombuffer(content, kind)
    if found.size != math.prod(shape):
        raise Fault(f"a tensor of shape {list(shape)} has {found.size} elements")
    return found.reshape(tuple(shape))


def raw_size(tensor: Any) -> int:
    """How many bytes the content of a tensor of numbers has."""
    return int(np.dtype(triton_to_np_dtype(tensor.datatype)).itemsize * math.prod(tensor.shape))


def outputs_of(answer: Any, elsewhere: Mapping[str, Piece] | None = None) -> dict[str, Array]:
    """The tensors of an answer; the contents of some may have come another way."""
    contents = answer.raw_output_contents
    if len(contents) != len(answer.outputs):
        raise Fault(f"{len(contents)} contents for {len(answer.outputs)} tensors")
    return {
        tensor.name: array_of(
            tensor.datatype, tensor.shape, (elsewhere or {}).get(tensor.name, content)
        )
        for tensor, content in zip(answer.outputs, contents, strict=True)
    }


def per_job(outputs: Tensors, jobs: int) -> list[Tensors]:
    """The outputs of a call, for each of its jobs."""
    for name, array in outputs.items():
        if array.ndim < 1 or len(array) != jobs:
            count = len(array) if array.ndim else "no"
            raise Fault(f"{count} outputs {name} for {jobs} jobs")
    return [{name: array[n, ...] for name, array in outputs.items()} for n in range(jobs)]


def encoded(array: Array) -> list[Piece]:
    """Its raw content, in pieces."""
    if array.dtype == np.object_:
        return behind_lengths(array.flat)
    return [array.reshape(-1).view(np.uint8).data]


def _encoded(item: Any) -> bytes:
    return item.encode() if isinstance(item, str) else bytes(item)


def _described(outputs: Tensors) -> str:
    return ", ".join(f"{name} ({datatype(array)})" for name, array in outputs.items()) or "nothing"


def _kind(thing: Any) -> str:
    return type(thing).__name__
