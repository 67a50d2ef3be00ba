"""One call to an emulated model: what it asks for, how long that takes, and what comes out.

The invoker says in parameters of the request which config the task has as a whole and by which key
its weather is drawn (`esg_batch`, `esg_vcpus`, `esg_vgpus`, `esg_key`); a real Triton ignores them.
All portions of a task get the same, and so take the time of the whole task: they run side by side.
With `esg_phased` somebody else sees to the CPU parts, and what is asked for is the rest.
A client that knows nothing of this gets one vCPU and one vGPU for as many rows as it sends. Of
which kind the slice is, the slice knows itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import service_pb2 as triton

from esg.core.catalog.config import Config
from esg.core.catalog.model import Function
from esg.core.catalog.slice_kinds import USUAL
from esg.core.emulated_output import emulated_output, output_size
from esg.errors import Rejected
from esg.invoker.emulated.shared_regions import SharedRegions
from esg.invoker.tensors.arrays import INPUT, OUTPUT
from esg.invoker.tensors.raw_encoding import serialized
from esg.tensors import BYTES, behind_lengths, elements_of

VERSION = "1"


@dataclass(frozen=True, slots=True)
class EmulatedTask:
    """What a request asks for: a row of inputs per job, to be run at a config."""

    function: Function
    request_id: str
    rows: list[Sequence[bytes | memoryview]]
    config: Config
    key: str
    phased: bool = False

    @property
    def profiled_us(self) -> int:
        """Of all its parts."""
        return self.function.profile.time_us_of(self.config)

    def share_us(self, working_us: int) -> int:
        """What is asked for of a task whose parts take so long (see `Durations.phases`)."""
        if not self.phased:
            return working_us
        profiled = self.function.profile.phases_of(self.config)
        return working_us * profiled.slices_us // profiled.total_us

    @property
    def size_bytes(self) -> int:
        return sum(len(content) for row in self.rows for content in row)

    def answer(self, payload_scale: float) -> bytes:
        """The serialized answer, with an output per job."""
        name, size = self.function.name, output_size(self.function.input_bytes, payload_scale)
        tensor = triton.ModelInferResponse.InferOutputTensor(
            name=OUTPUT, datatype=BYTES, shape=(len(self.rows), 1)
        )
        message = triton.ModelInferResponse(
            model_name=name, model_version=VERSION, id=self.request_id, outputs=(tensor,)
        )
        outputs = [emulated_output(name, row, size) for row in self.rows]
        return serialized(message, "raw_output_contents", [behind_lengths(outputs)])


def asked_for(
    function: Function, request: Any, regions: SharedRegions, kind: str = USUAL
) -> EmulatedTask:
    """What the request asks of this function on a slice of a kind; refuses what its model would
    refuse."""
    rows = _rows(function.name, request, regions)
    given = request.parameters
    config = Config(len(rows), 1, 1, kind)
    if "esg_batch" in given:
        batch, vcpus, vgpus = (
            given[f"esg_{name}"].int64_param for name in ("batch", "vcpus", "vgpus")
        )
        config = Config(batch, vcpus, vgpus, kind)
    if len(rows) > config.batch:
        raise Rejected(
            f"{len(rows)} rows for model '{function.name}' in a batch of {config.batch}; "
            "esg_batch is the size of the whole batch"
        )
    key = given["esg_key"].string_param if "esg_key" in given else request.id
    phased = "esg_phased" in given and given["esg_phased"].int64_param != 0
    return EmulatedTask(function, request.id, rows, config, key, phased)


def _rows(name: str, request: Any, regions: SharedRegions) -> list[Sequence[bytes | memoryview]]:
    """The tensor of a request, a row per job."""
    names = [tensor.name for tensor in request.inputs]
    if names != [INPUT]:
        raise Rejected(f"expected one inference input '{INPUT}' for model '{name}', got {names}")
    wanted = [tensor.name for tensor in request.outputs]
    if wanted not in ([], [OUTPUT]):
        raise Rejected(f"model '{name}' has one inference output '{OUTPUT}', not {wanted}")
    tensor = request.inputs[0]
    if tensor.datatype != BYTES:
        raise Rejected(
            f"inference input '{INPUT}' data-type is '{tensor.datatype}', "
            f"but model '{name}' expects '{BYTES}'"
        )
    if len(tensor.shape) != 2 or min(tensor.shape) < 1:
        raise Rejected(
            f"inference input '{INPUT}' for model '{name}' has shape {list(tensor.shape)}; "
            "it is [batch, inputs per job], both at least 1"
        )
    found: Sequence[bytes | memoryview] = tensor.contents.bytes_contents
    shared = regions.content(tensor)
    if shared is not None:
        found = elements_of(shared)
    elif request.raw_input_contents:
        found = elements_of(request.raw_input_contents[0])
    jobs, width = tensor.shape
    if len(found) != jobs * width:
        raise Rejected(
            f"expected {jobs * width} string elements for inference input '{INPUT}' "
            f"for model '{name}', got {len(found)}"
        )
    return [found[start : start + width] for start in range(0, len(found), width)]
