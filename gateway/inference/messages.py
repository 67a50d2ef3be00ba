"""The Open Inference Protocol's messages, to and from what is known without a transport.

The messages are those of `tritonclient`, which are the protocol's own and Triton's additions. A
request has all its contents raw, or all of them typed; the answer is of the same kind.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2 as wire

from esg.errors import Rejected
from esg.gateway.inference.inference import InferAnswer, InferRequest
from esg.gateway.inference.options import Value, options_of
from esg.gateway.inference.payloads import Tensor
from esg.runtime.rpc.status import InvalidRequest
from esg.suggest import did_you_mean
from esg.tensors import BYTES, behind_lengths, check_shape, elements_of

_CONTENTS = {
    "BOOL": ("bool_contents", "?"),
    "INT8": ("int_contents", "<i1"),
    "INT16": ("int_contents", "<i2"),
    "INT32": ("int_contents", "<i4"),
    "INT64": ("int64_contents", "<i8"),
    "UINT8": ("uint_contents", "<u1"),
    "UINT16": ("uint_contents", "<u2"),
    "UINT32": ("uint_contents", "<u4"),
    "UINT64": ("uint64_contents", "<u8"),
    "FP32": ("fp32_contents", "<f4"),
    "FP64": ("fp64_contents", "<f8"),
    BYTES: ("bytes_contents", ""),
}
"""The field of typed contents, and numpy's word for the type. There is none for FP16."""
MOST_TYPED = 2**17
"""Elements of a tensor as typed contents: they are turned over one by one."""
MOST_TENSORS = 64
MOST_PARAMETERS = 64


def is_typed(asked: Any) -> bool:
    return not asked.raw_input_contents and any(t.HasField("contents") for t in asked.inputs)


def request_of(asked: Any) -> InferRequest:
    """A request; refused if it says what nobody here would do."""
    if len(asked.inputs) > MOST_TENSORS or len(asked.outputs) > MOST_TENSORS:
        raise InvalidRequest(f"the request names more than {MOST_TENSORS} tensors")
    if len(asked.parameters) > MOST_PARAMETERS:
        raise InvalidRequest(f"the request has more than {MOST_PARAMETERS} parameters")
    for output in asked.outputs:
        _check_parameters(f"output {output.name}", output.parameters)
    parameters = {name: _value(parameter) for name, parameter in asked.parameters.items()}
    return InferRequest(
        model=asked.model_name,
        version=asked.model_version,
        id=asked.id,
        inputs=_inputs(asked),
        outputs=[output.name for output in asked.outputs],
        options=options_of(parameters, asked.id),
    )


def _inputs(asked: Any) -> list[Tensor]:
    raw = asked.raw_input_contents
    if raw and any(tensor.HasField("contents") for tensor in asked.inputs):
        raise InvalidRequest("contents are raw and typed; send all of them in one way")
    if raw and len(raw) != len(asked.inputs):
        raise InvalidRequest(
            f"{len(raw)} raw contents for {len(asked.inputs)} inputs; send as many"
        )
    found = []
    for place, tensor in enumerate(asked.inputs):
        _check_parameters(f"input {tensor.name}", tensor.parameters)
        shape = tuple(tensor.shape)
        try:
            content = raw[place] if raw else _raw(tensor.datatype, shape, tensor.contents)
        except Rejected as error:
            raise InvalidRequest(f"input {tensor.name[:100]}: {error}") from None
        found.append(Tensor(tensor.name, tensor.datatype, shape, content))
    return found


def _raw(datatype: str, shape: Sequence[int], contents: Any) -> bytes:
    """The raw content of typed contents."""
    if datatype not in _CONTENTS:
        if datatype == "FP16":
            raise Rejected("FP16 has no typed contents; send them raw")
        raise Rejected(did_you_mean("datatype", datatype, _CONTENTS))
    check_shape(shape)
    field, kind = _CONTENTS[datatype]
    values = getattr(contents, field)
    if len(values) != prod(shape):
        raise Rejected(
            f"{len(values)} elements in {field}, where {datatype} {list(shape)} has {prod(shape)}"
        )
    if len(values) > MOST_TYPED:
        raise Rejected(f"{len(values)} typed elements; send more than {MOST_TYPED} of them raw")
    if datatype == BYTES:
        return b"".join(behind_lengths(values))
    try:
        return np.array(values, kind).tobytes()
    except (OverflowError, ValueError):
        raise Rejected(f"an element is no {datatype}; send numbers within its range") from None


def _check_parameters(what: str, parameters: Any) -> None:
    for name, parameter in parameters.items():
        if name == "classification" and not _value(parameter):
            continue
        if name.startswith("shared_memory"):
            raise InvalidRequest(
                f"{what}: there is no shared memory here; send tensors as they are"
            )
        raise InvalidRequest(f"{what}: parameter {name[:100]!r} is not known here; leave it out")


def _value(parameter: Any) -> Value:
    which = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, which) if which else ""


def answer_to_wire(asked: InferRequest, answer: InferAnswer, *, typed: bool) -> Any:
    """The answer to a request; typed if that was, as far as there are types for it."""
    message = wire.ModelInferResponse(
        model_name=asked.model, model_version=answer.model.version, id=asked.id
    )
    for name, value in answer.parameters.items():
        parameter = message.parameters[name]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, int):
            parameter.int64_param = value
        else:
            parameter.string_param = value
    if asked.options.marks_final:
        message.parameters["triton_final_response"].bool_param = True
    typed = typed and all(tensor.datatype in _CONTENTS for tensor in answer.outputs)
    for tensor in answer.outputs:
        output = message.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        if typed:
            field, kind = _CONTENTS[tensor.datatype]
            getattr(output.contents, field).extend(_values(tensor, kind))
        else:
            message.raw_output_contents.append(bytes(tensor.content))
    return message


def _values(tensor: Tensor, kind: str) -> list[Any]:
    if tensor.datatype == BYTES:
        return [bytes(element) for element in elements_of(tensor.content)]
    return np.frombuffer(tensor.content, kind).tolist()  # type: ignore[no-any-return]
