"""Writing a network down in the two files that the ncnn library reads.

One is text, a line for each layer with its parameters by number; the other holds the weights, in
the order of the layers. The library wants a tensor that two layers read to be split in two first;
that is seen to when the text is made. No name of a tensor is used twice.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_MAGIC = 7767517
_SAME = -233
"""Padding such that the output is as large as the input, over the stride; what is odd goes last."""
_PLAIN = b"\0\0\0\0"
"""Comes before weights that are 32-bit floats."""

Parameters = Mapping[int, float | str]
NOTHING: Parameters = {}
RELU: Parameters = {9: 1}
RELU6: Parameters = {9: 3, -23310: "2,0.0,6.0"}
"""What a convolution does to its outputs."""


@dataclass(frozen=True, slots=True)
class _Layer:
    kind: str
    inputs: tuple[str, ...]
    output: str
    parameters: Parameters


class Layers:
    """The layers of a network so far. Each method adds one and gives the name of its output."""

    def __init__(self, source: str = "picture") -> None:
        self._layers = [_Layer("Input", (), source, {})]
        self._weights: list[bytes] = []

    def add(self, kind: str, *inputs: str, **parameters: float) -> str:
        """A layer without weights; its parameters are `p0=…`, by number."""
        return self._add(kind, inputs, {int(key[1:]): value for key, value in parameters.items()})

    def convolution(
        self,
        source: str,
        weights: np.ndarray,
        bias: np.ndarray,
        *,
        stride: int = 1,
        each: bool = False,
        activation: Parameters = NOTHING,
    ) -> str:
        """Weights are outputs × inputs × height × width. With `each`, every channel has its own
        and there is no second dimension to it."""
        outputs, height, width = weights.shape[0], weights.shape[-2], weights.shape[-1]
        parameters: Parameters = {
            0: outputs,
            1: width,
            11: height,
            3: stride,
            4: _SAME,
            5: 1,
            6: weights.size,
        }
        kind = "ConvolutionDepthWise" if each else "Convolution"
        channels: Parameters = {7: outputs} if each else {}
        self._keep(weights, bias)
        return self._add(kind, (source,), {**parameters, **channels, **activation})

    def transposed_convolution(
        self, source: str, weights: np.ndarray, bias: np.ndarray, *, stride: int
    ) -> str:
        """Enlarges by the stride, which is also the size of the kernel."""
        parameters: Parameters = {0: weights.shape[0], 1: stride, 3: stride, 5: 1, 6: weights.size}
        self._keep(weights, bias)
        return self._add("Deconvolution", (source,), parameters)

    def dense(self, source: str, weights: np.ndarray, bias: np.ndarray) -> str:
        self._keep(weights, bias)
        return self._add("InnerProduct", (source,), {0: weights.shape[0], 1: 1, 2: weights.size})

    def mean(self, source: str) -> str:
        """Of each channel."""
        return self.add("Pooling", source, p0=1, p7=1, p8=1, p18=1)

    def resized(self, source: str, height: int, width: int) -> str:
        """By linear interpolation."""
        return self.add("Interp", source, p0=2, p3=height, p4=width)

    def text(self) -> str:
        lines, tensors = [], 0
        uses = Counter(name for layer in self._layers for name in layer.inputs)
        taken: Counter[str] = Counter()
        for number, layer in enumerate(self._layers):
            inputs = [_one(name, taken, uses) for name in layer.inputs]
            lines.append(
                _line(layer.kind, f"layer{number}", inputs, [layer.output], layer.parameters)
            )
            tensors += 1
            if uses[layer.output] > 1:
                copies = [f"{layer.output}_{copy}" for copy in range(uses[layer.output])]
                lines.append(_line("Split", f"split{number}", [layer.output], copies, {}))
                tensors += len(copies)
        return "\n".join([str(_MAGIC), f"{len(lines)} {tensors}", *lines, ""])

    def weights(self) -> bytes:
        return b"".join(self._weights)

    def _add(self, kind: str, inputs: tuple[str, ...], parameters: Parameters) -> str:
        output = f"tensor{len(self._layers)}"
        self._layers.append(_Layer(kind, inputs, output, parameters))
        return output

    def _keep(self, weights: np.ndarray, bias: np.ndarray) -> None:
        self._weights += [_PLAIN, _floats(weights), _floats(bias)]


def _floats(numbers: np.ndarray) -> bytes:
    return np.ascontiguousarray(numbers, np.float32).tobytes()


def _one(name: str, taken: Counter[str], uses: Counter[str]) -> str:
    """The tensor, or the copy of it that nobody has read yet."""
    if uses[name] == 1:
        return name
    taken[name] += 1
    return f"{name}_{taken[name] - 1}"


def _line(
    kind: str, name: str, inputs: Sequence[str], outputs: Sequence[str], parameters: Parameters
) -> str:
    told = [f"{key}={value}" for key, value in parameters.items()]
    return " ".join([kind, name, str(len(inputs)), str(len(outputs)), *inputs, *outputs, *told])
