"""Reading a TensorFlow Lite file: its operators in order, and its weights as arrays.

A .tflite file is a FlatBuffer. Of that format only what is needed here is read: tables, whose
fields are found through a list of offsets; vectors; strings; and scalars.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_TYPES: dict[int, Any] = {0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64}

_NAMES = {
    0: "ADD",
    1: "AVERAGE_POOL_2D",
    3: "CONV_2D",
    4: "DEPTHWISE_CONV_2D",
    6: "DEQUANTIZE",
    14: "LOGISTIC",
    18: "MUL",
    19: "RELU",
    23: "RESIZE_BILINEAR",
    117: "HARD_SWISH",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a FlatBuffer, at its place in the file."""

    content: bytes
    at: int

    def scalar(self, field: int, form: str, default: int = 0) -> int:
        """A field that is a number; `form` is its `struct` format."""
        place = self._place(field)
        return (
            default
            if place is None
            else int(struct.unpack_from(f"<{form}", self.content, place)[0])
        )

    def table(self, field: int) -> "Table":
        place = self._place(field)
        if place is None:
            raise ValueError(f"a table of the file lacks field {field}")
        return Table(self.content, place + self._u32(place))

    def tables(self, field: int) -> list["Table"]:
        start, length = self._vector(field)
        places = range(start, start + 4 * length, 4)
        return [Table(self.content, place + self._u32(place)) for place in places]

    def numbers(self, field: int) -> list[int]:
        start, length = self._vector(field)
        return list(struct.unpack_from(f"<{length}i", self.content, start))

    def raw(self, field: int) -> bytes:
        start, length = self._vector(field)
        return self.content[start : start + length]

    def _place(self, field: int) -> int | None:
        offsets = self.at - struct.unpack_from("<i", self.content, self.at)[0]
        (size,) = struct.unpack_from("<H", self.content, offsets)
        entry = 4 + 2 * field
        (offset,) = (
            struct.unpack_from("<H", self.content, offsets + entry) if entry < size else (0,)
        )
        return self.at + offset if offset else None

    def _vector(self, field: int) -> tuple[int, int]:
        """Where it begins, and how many items it has."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + self._u32(place)
        return start + 4, self._u32(start)

    def _u32(self, place: int) -> int:
        return int(struct.unpack_from("<I", self.content, place)[0])


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a network. Tensors are numbers; those that are weights are in `File.weights`."""

    name: str
    inputs: list[int]
    outputs: list[int]
    options: Table | None


class File:
    """A network in a .tflite file."""

    def __init__(self, content: bytes) -> None:
        if content[4:8] != b"TFL3":
            raise ValueError("not a TensorFlow Lite file")
        model = Table(content, struct.unpack_from("<I", content, 0)[0])
        self._kinds = [_operator_name(code) for code in model.tables(1)]
        graph = model.tables(2)[0]
        self._operators = graph.tables(3)
        tensors, buffers = graph.tables(0), model.tables(4)
        self.shapes = [tensor.numbers(0) for tensor in tensors]
        self.inputs, self.outputs = graph.numbers(1), graph.numbers(2)
        self.weights: dict[int, np.ndarray] = {}
        for number, tensor in enumerate(tensors):
            raw = buffers[tensor.scalar(2, "I")].raw(0)
            if raw:
                kind = _TYPES[tensor.scalar(1, "b")]
                self.weights[number] = np.frombuffer(raw, kind).reshape(self.shapes[number])

    def operators(self) -> Iterator[Operator]:
        """In the order in which they are to be carried out."""
        for operator in self._operators:
            has_options = operator.scalar(3, "B") != 0
            yield Operator(
                self._kinds[operator.scalar(0, "I")],
                operator.numbers(1),
                operator.numbers(2),
                operator.table(4) if has_options else None,
            )


def _operator_name(code: Table) -> str:
    number = max(code.scalar(0, "b"), code.scalar(3, "i"))
    if number == 32:
        return code.raw(1).decode()
    return _NAMES.get(number, f"operator {number}")
