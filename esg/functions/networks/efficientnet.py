"""EfficientNet-Lite0, trained on ImageNet, from the weights that torch wrote."""

from pathlib import Path

import numpy as np

from .ncnn_layers import NOTHING, RELU6, Layers, Parameters
from .ncnn_network import NcnnNetwork
from .torch_file import read_weights

SIDE = 224
_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)
"""Of the sixteen blocks."""
_EPSILON = 1e-3
"""Keeps the normalisation from dividing by nothing; as in training."""


def classifier(path: Path) -> NcnnNetwork:
    """Takes RGB from -1 to 1, `SIDE` pixels square; gives 1,000 scores."""
    network = _Builder(read_weights(path.read_bytes()))
    tensor = network.convolution("picture", "_conv_stem", "_bn0", stride=2, activation=RELU6)
    for number, stride in enumerate(_STRIDES):
        tensor = network.block(tensor, f"_blocks.{number}.", stride)
    tensor = network.convolution(tensor, "_conv_head", "_bn1", activation=RELU6)
    layers, weights = network.layers, network.weights
    layers.dense(layers.mean(tensor), weights["_fc.weight"], weights["_fc.bias"])
    return NcnnNetwork.of(layers)


class _Builder:
    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.layers = Layers()

    def block(self, tensor: str, name: str, stride: int) -> str:
        """Widen, look around, narrow; and add what came in, if that has the same shape."""
        wide = tensor
        if f"{name}_expand_conv.weight" in self.weights:
            wide = self.convolution(tensor, f"{name}_expand_conv", f"{name}_bn0", activation=RELU6)
        seen = self.convolution(
            wide, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride, activation=RELU6
        )
        narrow = self.convolution(seen, f"{name}_project_conv", f"{name}_bn2")
        outputs = self.weights[f"{name}_project_conv.weight"].shape[0]
        expanded = self.weights.get(f"{name}_expand_conv.weight")
        same = expanded is not None and stride == 1 and expanded.shape[1] == outputs
        return self.layers.add("BinaryOp", tensor, narrow, p0=0) if same else narrow

    def convolution(
        self,
        tensor: str,
        name: str,
        normalisation: str,
        *,
        stride: int = 1,
        activation: Parameters = NOTHING,
    ) -> str:
        """A convolution and the normalisation behind it are one convolution."""
        told = {
            part: self.weights[f"{normalisation}.{part}"]
            for part in ("weight", "bias", "running_mean", "running_var")
        }
        scale = told["weight"] / np.sqrt(told["running_var"] + _EPSILON)
        weights = self.weights[f"{name}.weight"] * scale[:, None, None, None]
        bias = told["bias"] - told["running_mean"] * scale
        each = weights.shape[1] == 1
        return self.layers.convolution(
            tensor,
            weights[:, 0] if each else weights,
            bias,
            stride=stride,
            each=each,
            activation=activation,
        )
