"""MediaPipe's network that finds people, from its .tflite file: 256 × 256 pixels in and out."""

from pathlib import Path

import numpy as np

from .ncnn_layers import Layers
from .ncnn_network import NcnnNetwork
from .tflite import File, Operator

SIDE = 256
_STRIDE = 1
"""The number of this field in the options of a convolution."""


def people_network(path: Path) -> NcnnNetwork:
    """Takes RGB from 0 to 1, of any size; gives the likelihood of a person, at `SIDE`."""
    file = File(path.read_bytes())
    layers = Layers()
    names = {file.inputs[0]: layers.resized("picture", SIDE, SIDE)}
    weights: dict[int, np.ndarray] = {}
    for operator in file.operators():
        first, output = operator.inputs[0], operator.outputs[0]
        if operator.name == "DEQUANTIZE":
            weights[output] = file.weights[first].astype(np.float32)
        else:
            given = [names[tensor] for tensor in operator.inputs if tensor in names]
            held = [weights[tensor] for tensor in operator.inputs if tensor in weights]
            names[output] = _add(layers, operator, given, held, file.shapes[output])
    return NcnnNetwork.of(layers)


def _add(
    layers: Layers, operator: Operator, given: list[str], held: list[np.ndarray], shape: list[int]
) -> str:
    match operator.name:
        case "CONV_2D" | "DEPTHWISE_CONV_2D" | "Convolution2DTransposeBias":
            return _convolution(layers, operator, given[0], *held)
        case "ADD":
            return layers.add("BinaryOp", *given, p0=0)
        case "MUL":
            return layers.add("BinaryOp", *given, p0=2)
        case "AVERAGE_POOL_2D":  # over the whole plane, everywhere in this network
            return layers.mean(given[0])
        case "HARD_SWISH":
            return layers.add("HardSwish", given[0], p0=1 / 6, p1=0.5)
        case "LOGISTIC":
            return layers.add("Sigmoid", given[0])
        case "RELU":
            return layers.add("ReLU", given[0])
        case "RESIZE_BILINEAR":
            return layers.resized(given[0], shape[1], shape[2])
        case unknown:
            raise ValueError(f"the file has a step that is not known here: {unknown}")


def _convolution(
    layers: Layers, operator: Operator, source: str, weights: np.ndarray, bias: np.ndarray
) -> str:
    """TensorFlow has the channels last: outputs (or 1) × height × width × inputs."""
    first = np.moveaxis(weights, -1, 1)
    if operator.name == "Convolution2DTransposeBias":
        return layers.transposed_convolution(source, first, bias, stride=weights.shape[1])
    assert operator.options is not None
    each = operator.name == "DEPTHWISE_CONV_2D"
    stride = operator.options.scalar(_STRIDE, "i")
    return layers.convolution(source, first[0] if each else first, bias, stride=stride, each=each)
