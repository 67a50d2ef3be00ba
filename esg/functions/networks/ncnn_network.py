"""Running a network with the ncnn library, on as many threads as its slice has."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import ncnn
import numpy as np

from .ncnn_layers import Layers

THREADS = int(os.environ.get("OMP_NUM_THREADS") or 1)
"""The invoker says it to the server of each slice without a GPU."""


class NcnnNetwork:
    """A network with one input and one output."""

    def __init__(self, text: Path, weights: Path) -> None:
        self._net = ncnn.Net()
        self._net.opt.num_threads = THREADS
        self._net.opt.use_vulkan_compute = False
        if self._net.load_param(str(text)) != 0 or self._net.load_model(str(weights)) != 0:
            raise ValueError(f"{text.name}: ncnn cannot read this network")
        self._input = self._net.input_names()[0]
        self._output = self._net.output_names()[0]

    @classmethod
    def of(cls, layers: Layers) -> "NcnnNetwork":
        with TemporaryDirectory() as directory:
            text, weights = Path(directory, "network.param"), Path(directory, "network.bin")
            text.write_text(layers.text())
            weights.write_bytes(layers.weights())
            return cls(text, weights)

    def __call__(self, planes: np.ndarray) -> np.ndarray:
        """`planes` are channels × height × width."""
        extractor = self._net.create_extractor()
        given = np.ascontiguousarray(planes, np.float32)
        extractor.input(self._input, ncnn.Mat(given))
        failed, found = extractor.extract(self._output)
        if failed:
            raise RuntimeError(f"the network could not be run on an input of {planes.shape}")
        return np.array(found)
