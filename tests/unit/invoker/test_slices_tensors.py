"""Tensors of byte strings: what we put together by hand is what `tritonclient` makes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as triton
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from esg.errors import Rejected
from invoker.byte_tensors import elements_of, serialized
from invoker.slices import Row, infer_request, split

# Around the sizes where the length of a field takes another byte
SIZES = st.sampled_from([0, 1, 4, 119, 120, 127, 128, 16_379, 16_380, 16_384, 2_097_148, 2_097_152])


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=9))
def test_elements_are_encoded_as_triton_does(elements: list[bytes]) -> None:
    message = triton.ModelInferRequest(model_name="detect", id="r1")
    found = triton.ModelInferRequest.FromString(serialized(message, "raw_input_contents", elements))
    expected = serialize_byte_tensor(np.array(elements, dtype=np.object_)).item()
    assert list(found.raw_input_contents) == [expected]
    assert (found.model_name, found.id) == ("detect", "r1")


@given(SIZES)
def test_elements_of_any_size_arrive(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    message = triton.ModelInferResponse(model_name="detect")
    raw = serialized(message, "raw_output_contents", [memoryview(content)[:size], b"end"])
    found = triton.ModelInferResponse.FromString(raw).raw_output_contents[0]
    assert deserialize_bytes_tensor(found).tolist() == [content[:size], b"end"]
    assert elements_of(found) == [content[:size], b"end"]


@pytest.mark.parametrize("raw", [b"\1", b"\1\0\0\0", b"\2\0\0\0x", b"\1\0\0\0x\0"])
def test_a_tensor_that_breaks_off_is_refused(raw: bytes) -> None:
    with pytest.raises(Rejected, match="ends within element"):
        elements_of(raw)


def test_a_request_has_a_row_per_job_and_a_column_per_input() -> None:
    rows: list[Row] = [[b"a", memoryview(b"b")], [b"", b"d"], [b"e", b"f"]]
    found = triton.ModelInferRequest.FromString(
        infer_request("detect", rows, {"esg_batch": 4, "esg_key": "r1/detect"})
    )
    (tensor,) = found.inputs
    assert (tensor.name, tensor.datatype, list(tensor.shape)) == ("INPUT", "BYTES", [3, 2])
    assert [output.name for output in found.outputs] == ["OUTPUT"]
    assert elements_of(found.raw_input_contents[0]) == [b"a", b"b", b"", b"d", b"e", b"f"]
    assert found.parameters["esg_batch"].int64_param == 4
    assert found.parameters["esg_key"].string_param == "r1/detect"


@given(st.lists(st.integers(), min_size=1, max_size=70), st.integers(min_value=1, max_value=16))
def test_a_batch_is_split_evenly_and_in_order(rows: list[int], slices: int) -> None:
    portions = split(rows, slices)
    sizes = [len(portion) for portion in portions]
    assert [row for portion in portions for row in portion] == rows
    assert len(portions) == min(slices, len(rows))
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == -(-len(rows) // slices)
