"""Named parts in a blob, and requests of the Open Inference Protocol: a value, or a refusal."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as wire

from esg.client.payloads import named_contents
from esg.core.catalog.ports import PLAIN_INPUT, Port
from esg.errors import Fault, Rejected
from esg.gateway.inference.messages import request_of
from esg.gateway.inference.models import Model, ModelOutput
from esg.gateway.inference.payloads import fitted, payloads
from esg.parts import MARK, Part, packed, unpacked
from esg.profiler.imported import imported_times
from tests.fuzz.broken import spoilt
from tests.fuzz.budget import fuzzed, gives_a_value_or_is_refused
from tests.fuzz.messages import any_message

BLOBS = [
    packed([Part("boxes", bytes(32), "FP32", (2, 4)), Part("picture", b"picture")]),
    packed([Part("words", b"\x01\0\0\0a\0\0\0\0", "BYTES", (2,))]),
    packed([Part("-", bytes(12), "UINT8", (2, 2, 3))]),
]
OUTPUT = {"output": ModelOutput(Port("output", "a/b"), "last", "output")}
MODELS = [
    Model("plain", "1", PLAIN_INPUT, OUTPUT, frozenset()),
    Model("picture", "1", (Port("picture", "image/*"),), OUTPUT, frozenset()),
    Model(
        "boxes",
        "1",
        (
            Port("boxes", datatype="FP32", shape=(-1, 4)),
            Port("words", datatype="BYTES", shape=(2,)),
        ),
        OUTPUT,
        frozenset(),
    ),
]
NAMES = st.sampled_from(["picture", "input", "boxes", "words", ""])
SHAPES = st.lists(st.integers(-2, 5), max_size=5)
TENSORS = st.builds(
    wire.ModelInferRequest.InferInputTensor,
    name=NAMES,
    datatype=st.sampled_from(["BYTES", "UINT8", "FP32", "FP16", "INT8", "BOOL", "FP31"]),
    shape=SHAPES,
    contents=st.one_of(st.none(), any_message(wire.InferTensorContents)),
)
REQUESTS = st.builds(
    wire.ModelInferRequest,
    inputs=st.lists(TENSORS, max_size=3),
    raw_input_contents=st.lists(st.binary(max_size=80), max_size=3),
    id=st.text(max_size=5),
)


@fuzzed()
@given(spoilt(BLOBS) | st.binary().map(MARK.__add__))
def test_a_blob_that_is_broken_is_read_or_refused(blob: bytes) -> None:
    gives_a_value_or_is_refused(lambda: unpacked(blob))
    for model in MODELS:
        gives_a_value_or_is_refused(lambda model=model: fitted(model, blob, in_parts=True))


@fuzzed()
@given(spoilt(BLOBS))
def test_outputs_that_are_broken_are_read_or_the_servers_fault(blob: bytes) -> None:
    with suppress(Fault):
        named_contents({"stage": blob})


@fuzzed()
@given(any_message(wire.ModelInferRequest) | REQUESTS, st.sampled_from(MODELS))
def test_a_request_to_infer_becomes_payloads_or_is_refused(
    asked: wire.ModelInferRequest, model: Model
) -> None:
    def read() -> None:
        contents, _ = payloads(model, request_of(asked).inputs, most=4)
        assert 0 < len(contents) <= 4

    gives_a_value_or_is_refused(read)


TABLES = [
    b"Concurrency,Server Queue,p50 latency\n1,5,80000\n2,6,90000\n",
    b"Model,Batch,Concurrency,Avg Latency (ms)\nresnet,1,1,5.5\nresnet,4,1,9.5\n",
]


@fuzzed()
@given(spoilt(TABLES))
def test_a_table_of_another_tool_is_read_or_refused(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    gives_a_value_or_is_refused(lambda: imported_times("x.csv", text, batch=2))


def test_some_of_these_requests_are_taken() -> None:
    tensor = wire.ModelInferRequest.InferInputTensor(name="input", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"picture")
    asked = wire.ModelInferRequest(inputs=[tensor])
    assert payloads(MODELS[0], request_of(asked).inputs, most=4) == ([b"picture"], False)
    with pytest.raises(Rejected, match="unknown input 'input'"):
        payloads(MODELS[1], request_of(asked).inputs, most=4)
