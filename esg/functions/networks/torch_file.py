"""Reading the weights in a file of torch, without torch and without running anything.

Such a file (the kind from before torch 1.6) is a row of pickles with the raw numbers behind them. A
pickle may name any function to be called when it is read; this reader knows four names, which make
dictionaries and tensors, and refuses every other.
"""

import pickle
from collections import OrderedDict
from io import BytesIO
from typing import Any

import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C


class _Tensor:
    """A tensor whose numbers have not been read yet."""

    def __init__(
        self,
        storage: tuple[str, Any],
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        *_: Any,
    ) -> None:
        self.storage, self.kind = storage
        self._offset, self._shape, self._strides = offset, shape, strides

    def array(self, storages: dict[str, bytes]) -> np.ndarray:
        """Checked by numpy against the bytes that there are, whatever the file says."""
        size = np.dtype(self.kind).itemsize
        strides = tuple(size * stride for stride in self._strides)
        found = storages[self.storage]
        return np.ndarray(self._shape, self.kind, found, size * self._offset, strides)


_KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "FloatStorage"): np.float32,
    ("torch", "LongStorage"): np.int64,
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise ValueError(f"the file wants {module}.{name} to be called; that is refused")
        return _KNOWN[module, name]

    def persistent_load(self, told: Any) -> tuple[str, Any]:
        _, kind, key, _, _, _ = told
        return key, kind


def read_weights(content: bytes) -> dict[str, np.ndarray]:
    """Every tensor of a dictionary of tensors, by name."""
    file = BytesIO(content)
    if _Reader(file).load() != _MAGIC:
        raise ValueError("not a file of weights that torch wrote before version 1.6")
    for _ in ("protocol", "system"):
        _Reader(file).load()
    tensors: dict[str, _Tensor] = _Reader(file).load()
    kinds = {tensor.storage: np.dtype(tensor.kind) for tensor in tensors.values()}
    storages: dict[str, bytes] = {}
    for key in _Reader(file).load():
        count = int.from_bytes(file.read(8), "little")
        storages[key] = file.read(count * kinds[key].itemsize)
    return {name: tensor.array(storages) for name, tensor in tensors.items()}
