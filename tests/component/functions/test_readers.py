"""Reading weights from the files of other projects, and writing networks for ncnn.

The files are made here, byte by byte as those projects write them.
"""

import os
import pickle
import struct
from collections import OrderedDict
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
import pytest

from esg.functions.networks.ncnn_layers import RELU, Layers
from esg.functions.networks.tflite import File
from esg.functions.networks.torch_file import read_weights

MAGIC = 0x1950A86A20F9469CFC6C


class Storage:
    """Stands for numbers that come later in the file."""

    def __init__(self, kind: str, key: str, count: int) -> None:
        self.kind, self.key, self.count = kind, key, count


class Named:
    """Pickled as the name of something of torch's."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Tensor:
    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments


class TorchPickler(pickle._Pickler):
    """Writes what torch would; the plain one would insist on importing it."""

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)

    def persistent_id(self, found: Any) -> Any:
        if isinstance(found, Storage):
            kind = Named("torch", found.kind)
            return ("storage", kind, found.key, "cpu", found.count, None)
        return None

    def save_named(self, named: Named) -> None:
        self.write(pickle.GLOBAL + f"{named.module}\n{named.name}\n".encode())  # type: ignore[attr-defined]

    def save_tensor(self, tensor: Tensor) -> None:
        self.save_named(Named("torch._utils", "_rebuild_tensor_v2"))
        self.save(tensor.arguments)
        self.write(pickle.REDUCE)  # type: ignore[attr-defined]

    dispatch[Named] = save_named
    dispatch[Tensor] = save_tensor


def torch_file(tensors: Any, *storages: tuple[str, np.ndarray]) -> bytes:
    file = BytesIO()
    for part in (MAGIC, 1001, {"little_endian": True}, tensors, [key for key, _ in storages]):
        TorchPickler(file, protocol=2).dump(part)
    for _, numbers in storages:
        file.write(struct.pack("<q", numbers.size) + numbers.tobytes())
    return file.getvalue()


def test_tensors_are_read_with_their_offsets_and_strides() -> None:
    numbers = np.arange(8, dtype=np.float32)
    counts = np.array([5], np.int64)
    floats, longs = Storage("FloatStorage", "a", 8), Storage("LongStorage", "b", 1)
    tensors = OrderedDict(
        plain=Tensor(floats, 2, (2, 3), (3, 1), False, OrderedDict()),
        turned=Tensor(floats, 0, (2, 2), (1, 2), False, OrderedDict()),
        count=Tensor(longs, 0, (), (), False, OrderedDict()),
    )
    found = read_weights(torch_file(tensors, ("a", numbers), ("b", counts)))
    assert list(found) == ["plain", "turned", "count"]
    assert found["plain"].tolist() == [[2, 3, 4], [5, 6, 7]]
    assert found["turned"].tolist() == [[0, 2], [1, 3]]
    assert found["count"] == 5


def test_a_tensor_that_reaches_beyond_its_numbers_is_refused() -> None:
    tensors = {"w": Tensor(Storage("FloatStorage", "a", 2), 1, (2,), (1,), False, OrderedDict())}
    with pytest.raises(ValueError, match="incompatible with shape of requested array and size"):
        read_weights(torch_file(tensors, ("a", np.zeros(2, np.float32))))


def test_a_file_of_weights_cannot_call_anything() -> None:
    class Malice:
        def __reduce__(self) -> Any:
            return os.system, ("exit 1",)

    with pytest.raises(ValueError, match=r"the file wants posix\.system to be called; that is re"):
        read_weights(pickle.dumps(Malice()))


@pytest.mark.parametrize("content", [pickle.dumps(7), pickle.dumps({"weights": 1})])
def test_a_file_that_torch_did_not_write_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a file of weights that torch wrote"):
        read_weights(content)


def test_file_that_is_no_tflite_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a TensorFlow Lite file"):
        File(b"\x00" * 40)


def test_a_tensor_that_two_layers_read_is_split() -> None:
    layers = Layers()
    kernel, bias = np.ones((2, 3, 1, 1)), np.zeros(2)
    first = layers.convolution("picture", kernel, bias, activation=RELU)
    layers.add("BinaryOp", first, layers.add("Sigmoid", first), p0=2)
    magic, sizes, *lines = layers.text().splitlines()
    assert (magic, sizes) == ("7767517", "5 6")
    assert lines == [
        "Input layer0 0 1 picture",
        "Convolution layer1 1 1 picture tensor1 0=2 1=1 11=1 3=1 4=-233 5=1 6=6 9=1",
        "Split split1 1 2 tensor1 tensor1_0 tensor1_1",
        "Sigmoid layer2 1 1 tensor1_0 tensor2",
        "BinaryOp layer3 2 1 tensor1_1 tensor2 tensor3 0=2",
    ]
    assert layers.weights() == b"\0\0\0\0" + np.array([1] * 6 + [0] * 2, np.float32).tobytes()
