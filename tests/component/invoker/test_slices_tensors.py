"""Tensors of byte strings: what we put together by hand is what `tritonclient` makes."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as triton
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from esg.errors import Fault, Rejected
from esg.invoker.slices.client import split
from esg.invoker.slices.infer_request import (
    infer_request,
    plain_outputs,
    plain_request,
    plain_stack,
)
from esg.invoker.tensors.arrays import (
    Tensors,
    alike,
    array_of,
    byte_strings,
    per_job,
    plain_input,
    plain_output,
    stacked,
)
from esg.invoker.tensors.raw_encoding import serialized
from esg.tensors import behind_lengths, elements_of

# Around the sizes where the length of a field takes another byte
SIZES = st.sampled_from([0, 1, 4, 119, 120, 127, 128, 16_379, 16_380, 16_384, 2_097_148, 2_097_152])


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=9))
def test_elements_are_encoded_as_triton_does(elements: list[bytes]) -> None:
    message = triton.ModelInferRequest(model_name="detect", id="r1")
    raw = serialized(message, "raw_input_contents", [behind_lengths(elements)])
    found = triton.ModelInferRequest.FromString(raw)
    expected = serialize_byte_tensor(np.array(elements, dtype=np.object_)).item()
    assert list(found.raw_input_contents) == [expected]
    assert (found.model_name, found.id) == ("detect", "r1")


@given(SIZES)
def test_elements_of_any_size_arrive(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    message = triton.ModelInferResponse(model_name="detect")
    pieces = behind_lengths([memoryview(content)[:size], b"end"])
    raw = serialized(message, "raw_output_contents", [pieces])
    found = triton.ModelInferResponse.FromString(raw).raw_output_contents[0]
    assert deserialize_bytes_tensor(found).tolist() == [content[:size], b"end"]
    assert elements_of(found) == [content[:size], b"end"]


@pytest.mark.parametrize("raw", [b"\1", b"\1\0\0\0", b"\2\0\0\0x", b"\1\0\0\0x\0"])
def test_a_tensor_that_breaks_off_is_refused(raw: bytes) -> None:
    with pytest.raises(Rejected, match="ends within element"):
        elements_of(raw)


def test_a_request_has_a_row_per_job_and_a_column_per_input() -> None:
    rows = [[b"a", memoryview(b"b")], [b"", b"d"], [b"e", b"f"]]
    inputs = stacked([plain_input(row) for row in rows])
    message = infer_request("detect", inputs, {"esg_batch": 4, "esg_key": "r1/detect"})
    pieces = [given.pieces for given in inputs]
    found = triton.ModelInferRequest.FromString(serialized(message, "raw_input_contents", pieces))
    (tensor,) = found.inputs
    assert (tensor.name, tensor.datatype, list(tensor.shape)) == ("INPUT", "BYTES", [3, 2])
    assert elements_of(found.raw_input_contents[0]) == [b"a", b"b", b"", b"d", b"e", b"f"]
    assert found.parameters["esg_batch"].int64_param == 4
    assert found.parameters["esg_key"].string_param == "r1/detect"


ROWS = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.lists(st.binary(max_size=200), min_size=width, max_size=width), min_size=1, max_size=5
    )
)


@given(ROWS, st.text(max_size=9))
def test_jobs_of_byte_strings_are_asked_for_in_the_same_words_without_arrays(
    rows: list[list[bytes]], key: str
) -> None:
    parameters: dict[str, int | str] = {"esg_batch": len(rows), "esg_vgpus": 1, "esg_key": key}
    inputs = stacked([plain_input(row) for row in rows])
    expected = infer_request("detect", inputs, parameters)
    expected.raw_input_contents.append(b"".join(inputs[0].pieces))
    raw = plain_request("detect", plain_stack(rows), parameters)
    assert triton.ModelInferRequest.FromString(raw) == expected


def answered(
    name: str, datatype: str, shape: list[int], *contents: bytes
) -> triton.ModelInferResponse:
    tensor = triton.ModelInferResponse.InferOutputTensor(name=name, datatype=datatype, shape=shape)
    return triton.ModelInferResponse(outputs=[tensor], raw_output_contents=contents)


@pytest.mark.parametrize("shape", [[2, 1], [2]])
def test_answers_of_byte_strings_are_read_without_arrays(shape: list[int]) -> None:
    answer = answered("OUTPUT", "BYTES", shape, b"".join(behind_lengths([b"one", b""])))
    assert plain_outputs(answer, 2) == [b"one", b""]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answered("OUTPUT", "BYTES", [2, 1], b"\1\0\0\0"), "ends within element 0"),
        (answered("OUTPUT", "BYTES", [1, 1], b"\0" * 4), "1 outputs OUTPUT for 2 jobs"),
        (answered("OUTPUT", "BYTES", [2, 1], b"\0" * 4), "has 1 elements"),
        (answered("OUTPUT", "BYTES", [2, 1]), "0 contents for 1 tensors"),
    ],
)
def test_an_answer_that_is_not_one_for_its_jobs_is_a_fault(
    answer: triton.ModelInferResponse, words: str
) -> None:
    with pytest.raises(Fault, match=words):
        plain_outputs(answer, 2)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answered("SCORE", "BYTES", [2, 1], b"\0" * 8), r"SCORE \(BYTES\), not one tensor OUTPUT"),
        (answered("OUTPUT", "UINT8", [2, 1], b"ab"), r"OUTPUT \(UINT8\), not one tensor OUTPUT"),
        (answered("OUTPUT", "BYTES", [2, 2], b"\0" * 16), "2 byte strings for a job"),
    ],
)
def test_an_output_that_is_no_byte_string_is_the_fault_of_every_job(
    answer: triton.ModelInferResponse, words: str
) -> None:
    for fault in plain_outputs(answer, 2):
        assert isinstance(fault, Fault)
        assert re.search(words, str(fault))


DTYPES = [np.bool_, np.uint8, np.int64, np.float16, np.float32, np.float64]


@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_stacked_tensors_are_each_jobs_again_after_the_call(
    dtype: type[np.generic], shape: list[int], jobs: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    arrays = [(random.random(shape) * 100).astype(dtype) for _ in range(jobs)]
    (given_,) = stacked([{"X": array} for array in arrays])
    content = b"".join(given_.pieces)
    assert given_.size == len(content)
    found = per_job({"Y": array_of(given_.datatype, given_.shape, content)}, jobs)
    for outputs, array in zip(found, arrays, strict=True):
        assert (outputs["Y"].dtype, outputs["Y"].shape) == (array.dtype, array.shape)
        assert outputs["Y"].tobytes() == array.tobytes()


def test_jobs_share_a_call_only_if_names_types_and_shapes_agree() -> None:
    plain, wide = np.zeros(2, np.float32), np.zeros((1, 2), np.float32)
    jobs: list[Tensors] = [
        {"X": plain},
        {"X": wide},
        {"X": plain.astype(np.float64)},
        {"Z": plain},
        {"X": plain + 1},
        {"X": plain, "Z": plain},
        {"Z": plain, "X": plain},
    ]
    assert alike(jobs) == [[0, 4], [1], [2], [3], [5, 6]]


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (
            {"OUTPUT": np.zeros(1)},
            r"the model gives OUTPUT \(FP64\), not one tensor",
        ),
        ({"SCORE": byte_strings([b"x"])}, r"the model gives SCORE \(BYTES\), not one tensor"),
        ({}, "the model gives nothing, not one tensor"),
        ({"OUTPUT": byte_strings([b"x", b"y"])}, "the model gives 2 byte strings for a job"),
    ],
)
def test_output_without_a_handler_has_to_be_a_byte_string(outputs: Tensors, words: str) -> None:
    with pytest.raises(Fault, match=words):
        plain_output(outputs)


@given(st.lists(st.integers(), min_size=1, max_size=70), st.integers(min_value=1, max_value=16))
def test_a_batch_is_split_evenly_and_in_order(rows: list[int], slices: int) -> None:
    portions = split(rows, slices)
    sizes = [len(portion) for portion in portions]
    assert [row for portion in portions for row in portion] == rows
    assert len(portions) == min(slices, len(rows))
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == -(-len(rows) // slices)
