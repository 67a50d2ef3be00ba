"""Real-ESRGAN, which was trained to undo blur, noise and compression while it enlarges."""

import numpy as np

from .ncnn_network import NcnnNetwork
from .trained import weights
from .triton_model import PictureModel

FACTOR = 2


class _Restoring(PictureModel):
    def load(self) -> str:
        held = weights("real-esrgan")
        text, numbers = map(held.found, held.files)
        self._network = NcnnNetwork(text, numbers)
        return held.said()

    def _enlarged(self, picture: np.ndarray) -> np.ndarray:
        """RGB from 0 to 1, in and out."""
        return self._network(picture).clip(0, 1)


class Enlarging(_Restoring):
    """Twice as high and wide."""

    output = "enlarged"

    def infer(self, picture: np.ndarray) -> np.ndarray:
        return self._enlarged(picture)


class Sharpening(_Restoring):
    """Enlarged, and made small again by averaging: the size stays, the blur goes."""

    output = "sharpened"

    def infer(self, picture: np.ndarray) -> np.ndarray:
        large = self._enlarged(picture / 2 + 0.5)
        colours, height, width = large.shape
        blocks = large.reshape(colours, height // FACTOR, FACTOR, width // FACTOR, FACTOR)
        small: np.ndarray = blocks.mean(axis=(2, 4)) * 2 - 1
        return small
