"""Networks that look at a picture whose colours are normalised as for ImageNet."""

import numpy as np

from .efficientnet import classifier
from .ncnn_layers import RELU, Layers
from .ncnn_network import NcnnNetwork
from .selfie import people_network
from .trained import weights
from .triton_model import PictureModel

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
_LEAST = 1e-6
"""A likelihood of nothing has no logarithm."""


def _colours(picture: np.ndarray) -> np.ndarray:
    """RGB from 0 to 1."""
    return picture * _DEVIATION + _MEAN


class _People(PictureModel):
    def load(self) -> str:
        held = weights("selfie-segmentation")
        self._network = people_network(held.found(held.files[0]))
        return held.said()

    def _likelihood(self, picture: np.ndarray) -> np.ndarray:
        return self._network(_colours(picture))


class Segmenting(_People):
    """Two scores for every pixel: background, person."""

    output = "scores"

    def infer(self, picture: np.ndarray) -> np.ndarray:
        person = self._likelihood(picture).clip(_LEAST, 1 - _LEAST)
        scores: np.ndarray = np.log(np.concatenate([1 - person, person]))
        return scores


class CuttingOut(_People):
    """How much every pixel belongs to the person in front."""

    output = "mask"

    def infer(self, picture: np.ndarray) -> np.ndarray:
        return self._likelihood(picture)


class Classifying(PictureModel):
    output = "scores"

    def load(self) -> str:
        held = weights("efficientnet-lite0")
        self._network = classifier(held.found(held.files[0]))
        return held.said()

    def infer(self, picture: np.ndarray) -> np.ndarray:
        return self._network(_colours(picture) * 2 - 1).ravel()


class Ranging(PictureModel):
    """A small network in the shape of MiDaS: down to a sixteenth, and up again to one plane."""

    output = "nearness"
    _CHANNELS = (24, 40, 64, 112)

    def load(self) -> str:
        self._network = NcnnNetwork.of(self._layers())
        return "untrained: a small encoder and decoder with random weights"

    def infer(self, picture: np.ndarray) -> np.ndarray:
        nearness: np.ndarray = self._network(picture)[0]
        return nearness

    def _layers(self) -> Layers:
        chance = np.random.default_rng(0)
        layers, tensor, before = Layers(), "picture", 3
        passed: list[tuple[str, int]] = []

        def convolution(source: str, inputs: int, outputs: int, stride: int = 1) -> str:
            spread = np.sqrt(2 / (9 * inputs))
            kernel = chance.normal(0, spread, (outputs, inputs, 3, 3))
            nothing = np.zeros(outputs)
            return layers.convolution(source, kernel, nothing, stride=stride, activation=RELU)

        for channels in self._CHANNELS:
            tensor = convolution(tensor, before, channels, stride=2)
            tensor = convolution(tensor, channels, channels)
            passed.append((tensor, channels))
            before = channels
        for side, channels in reversed(passed[:-1]):
            wide = layers.add("Interp", tensor, p0=2, p1=2.0, p2=2.0)
            narrow = convolution(wide, before, channels)
            tensor = layers.add("BinaryOp", narrow, side, p0=0)
            before = channels
        convolution(layers.add("Interp", tensor, p0=2, p1=2.0, p2=2.0), before, 1)
        return layers
