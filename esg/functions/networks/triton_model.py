"""What every CPU model does around its network: the requests of Triton's Python backend."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as triton


class PictureModel(ABC):
    """A model with the input `picture` and two outputs: one of its own, and `weights`."""

    output: str

    @abstractmethod
    def load(self) -> str:
        """Make the network ready, and say which weights it has."""

    @abstractmethod
    def infer(self, picture: np.ndarray) -> np.ndarray:
        """What the network makes of one picture."""

    def initialize(self, _: dict[str, str]) -> None:
        self._weights = np.array(list(self.load().encode()), np.int32)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        return [self._response(request) for request in requests]

    def _response(self, request: Any) -> Any:
        pictures = triton.get_input_tensor_by_name(request, "picture").as_numpy()
        try:
            made = np.stack([self.infer(picture) for picture in pictures]).astype(np.float32)
        except (RuntimeError, ValueError, MemoryError) as error:
            return triton.InferenceResponse(error=triton.TritonError(f"{self.output}: {error}"))
        said = np.tile(self._weights, (len(pictures), 1))
        return triton.InferenceResponse(
            [triton.Tensor(self.output, made), triton.Tensor("weights", said)]
        )
