"""Requests to infer, as messages: of arrays, and of plain byte strings, where no array is needed.

Most of what a call says is the same each time. For a function without a handler, which has one
input and one output of byte strings, that part is serialized once and kept; a call is that, what is
its own, and the contents.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tritonclient.grpc import service_pb2 as triton

from esg.errors import Fault, Rejected
from esg.invoker.tensors.arrays import (
    INPUT,
    OUTPUT,
    Stacked,
    Tensors,
    outputs_of,
    per_job,
    plain_output,
)
from esg.invoker.tensors.raw_encoding import field_key, varint
from esg.tensors import BYTES, Piece, behind_lengths, elements_of

Parameters = Mapping[str, int | str]
Row = Sequence[Piece]
"""The inputs of a job, as byte strings."""

MOST_TEMPLATES = 1024
_CONTENTS = field_key(triton.ModelInferRequest, "raw_input_contents")


def infer_request(function: str, inputs: Sequence[Stacked], parameters: Parameters) -> Any:
    """The message that asks for a batch, without the contents of its tensors."""
    tensor = triton.ModelInferRequest.InferInputTensor
    message = triton.ModelInferRequest(
        model_name=function,
        inputs=[tensor(name=i.name, datatype=i.datatype, shape=i.shape) for i in inputs],
    )
    for name, value in parameters.items():
        if isinstance(value, str):
            message.parameters[name].string_param = value
        else:
            message.parameters[name].int64_param = value
    return message


def plain_stack(rows: Sequence[Row]) -> Stacked:
    """The one input of a call for jobs of byte strings, as many for each."""
    pieces = behind_lengths(content for row in rows for content in row)
    return Stacked(INPUT, BYTES, (len(rows), len(rows[0])), pieces)


def plain_request(function: str, given: Stacked, parameters: Parameters) -> bytes:
    """The whole message that asks for such jobs."""
    numbers = tuple((name, value) for name, value in parameters.items() if isinstance(value, int))
    parts: list[Piece] = [_template(function, given.shape, numbers)]
    if len(numbers) < len(parameters):
        texts = {name: value for name, value in parameters.items() if isinstance(value, str)}
        parts.append(infer_request("", (), texts).SerializeToString())
    parts += (_CONTENTS, varint(given.size), *given.pieces)
    return b"".join(parts)


@lru_cache(MOST_TEMPLATES)
def _template(function: str, shape: tuple[int, ...], numbers: tuple[tuple[str, int], ...]) -> bytes:
    given = Stacked(INPUT, BYTES, shape, [])
    return infer_request(function, (given,), dict(numbers)).SerializeToString()  # type: ignore[no-any-return]


def plain_outputs(answer: Any, jobs: int) -> list[bytes | Fault]:
    """What such a model made of each job."""
    outputs, contents = answer.outputs, answer.raw_output_contents
    if len(outputs) == len(contents) == 1:
        (tensor,), (content,) = outputs, contents
        if (tensor.name, tensor.datatype) == (OUTPUT, BYTES) and tensor.shape[:1] == [jobs]:
            try:
                found = elements_of(content)
            except Rejected as error:
                raise Fault(str(error)) from None
            if len(found) == jobs:
                return [bytes(element) for element in found]
    # Something else: whatever is wrong with it is found where all kinds of tensors are known
    return plain_of(outputs_of(answer), jobs)


def plain_of(outputs: Tensors, jobs: int) -> list[bytes | Fault]:
    """The same, of outputs as arrays."""
    return [_plain(job) for job in per_job(outputs, jobs)]


def _plain(outputs: Tensors) -> bytes | Fault:
    try:
        return plain_output(outputs)
    except Fault as fault:
        return fault
