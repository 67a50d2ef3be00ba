"""One body of tests for the Open Inference Protocol, against a mesh and against a plain Triton with
ensembles of the same stages. What differs is listed in docs/open-inference.md.

And what functions with tensors, and with several inputs and outputs, are given and give."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as sync_client
import tritonclient.grpc.aio as aio_client
from tritonclient.grpc import service_pb2 as wire
from tritonclient.utils import InferenceServerException

from esg.client import AsyncClient, Client, InvalidRequest, PipelineStage
from esg.local.supervisor import Mesh, MeshOptions
from tests.integration.triton.conftest import OwnLoop
from tests.support.plain_triton import plain_triton
from tests.support.typed_folders import write_ensembles, write_typed_functions

INVALID = "StatusCode.INVALID_ARGUMENT"
NOT_FOUND = "StatusCode.NOT_FOUND"


@pytest.fixture(scope="module")
def typed_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    loop = OwnLoop()
    catalog = write_typed_functions(tmp_path_factory.mktemp("typed"))
    options = MeshOptions(nodes=1, vcpus=2, slices="cpu:2", catalog=catalog, log_level="warning")

    async def start() -> Mesh:
        mesh = Mesh(options, tmp_path_factory.mktemp("mesh") / "m")
        await mesh.start()
        return mesh

    running = loop.run(start())
    yield running
    loop.run(running.stop())
    loop.close()


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("triton")
    write_ensembles(folder / "repository")
    with plain_triton(folder / "repository", folder) as address:
        yield address


@pytest.fixture(params=["mesh", "triton"])
def server(request: pytest.FixtureRequest) -> str:
    """Where one of the two listens."""
    if request.param == "triton":
        return str(request.getfixturevalue("triton"))
    return str(request.getfixturevalue("typed_mesh").gateway)


@pytest.fixture
def client(server: str) -> Iterator[sync_client.InferenceServerClient]:
    with sync_client.InferenceServerClient(server) as connected:
        yield connected


def tensor(name: str, array: Any, kind: Any = sync_client, datatype: str = "FP32") -> Any:
    made = kind.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.ones((2, 3), np.float32)
WORDS = np.array([[b"abc"], [b"x"], [b"defg"]], np.object_)
PAIR = np.array([[b"a", b"b"]], np.object_)


def refused(call: Any) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as caught:
        call()
    return str(caught.value.status()), str(caught.value.message())


def test_it_is_live_and_ready(client: sync_client.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("sums")
    assert client.is_model_ready("sums", "1")
    assert not client.is_model_ready("nothing")
    assert {"statistics", "model_configuration"} <= set(client.get_server_metadata().extensions)


def test_metadata_has_inputs_and_outputs_with_a_dimension_for_batches(
    client: sync_client.InferenceServerClient,
) -> None:
    for name, inputs, outputs in (
        ("sums", [("A", "FP32", [-1, -1]), ("B", "FP32", [-1, -1])], {"LARGE", "SMALL"}),
        ("words", [("INPUT", "BYTES", [-1, 1])], {"OUTPUT"}),
    ):
        told = client.get_model_metadata(name)
        assert (told.name, list(told.versions)) == (name, ["1"])
        found = [(one.name, one.datatype, list(one.shape)) for one in told.inputs]
        assert sorted(found) == inputs
        assert {one.name for one in told.outputs} == outputs
        config = client.get_model_config(name).config
        assert config.max_batch_size > 1
        assert {one.name for one in config.input} == {one[0] for one in inputs}


def test_the_index_and_the_statistics_name_the_models(
    client: sync_client.InferenceServerClient,
) -> None:
    index = {model.name: model.state for model in client.get_model_repository_index().models}
    assert index["sums"] == index["words"] == "READY"
    client.infer("words", [tensor("INPUT", WORDS, datatype="BYTES")])
    (told,) = client.get_inference_statistics("words").model_stats
    assert told.name == "words"
    assert told.inference_count >= 3
    assert told.inference_stats.success.count > 0


def test_tensors_go_through_both_stages(client: sync_client.InferenceServerClient) -> None:
    answer = client.infer("sums", [tensor("A", A), tensor("B", B)], request_id="my id")
    assert answer.get_response().id == "my id"
    assert (answer.as_numpy("LARGE") == 10 * (A + B)).all()
    assert (answer.as_numpy("SMALL") == 10 * (A - B)).all()


def test_byte_strings_come_back_in_their_places(
    client: sync_client.InferenceServerClient,
) -> None:
    answer = client.infer("words", [tensor("INPUT", WORDS[::2], datatype="BYTES")])
    assert answer.as_numpy("OUTPUT").tolist() == [[b"cba"], [b"gfed"]]


def test_only_outputs_that_are_wanted_are_given(
    client: sync_client.InferenceServerClient,
) -> None:
    wanted = [sync_client.InferRequestedOutput("SMALL")]
    answer = client.infer("sums", [tensor("A", A), tensor("B", B)], outputs=wanted)
    assert answer.as_numpy("LARGE") is None
    assert (answer.as_numpy("SMALL") == 10 * (A - B)).all()


async def test_the_client_for_asyncio(server: str) -> None:
    async with aio_client.InferenceServerClient(server) as client:
        assert await client.is_model_ready("sums")
        answer = await client.infer(
            "sums", [tensor("A", A, aio_client), tensor("B", B, aio_client)]
        )
        assert (answer.as_numpy("LARGE") == 10 * (A + B)).all()

        async def requests() -> Any:
            for number in range(5):
                word = np.array([[b"%d!" % number]], np.object_)
                yield {
                    "model_name": "words",
                    "inputs": [tensor("INPUT", word, aio_client, "BYTES")],
                    "request_id": str(number),
                }

        found = [answer async for answer in client.stream_infer(requests())]
        assert [error for _, error in found if error] == []
        results = [(a.get_response().id, a.as_numpy("OUTPUT")[0, 0]) for a, _ in found]
        assert results == [(str(n), b"!%d" % n) for n in range(5)]


def test_typed_contents_are_answered(server: str) -> None:
    with grpc.insecure_channel(server) as link:
        call = link.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            wire.ModelInferRequest.SerializeToString,
            wire.ModelInferResponse.FromString,
        )
        request = wire.ModelInferRequest(model_name="sums")
        for name in "AB":
            given = request.inputs.add(name=name, datatype="FP32", shape=[1, 2])
            given.contents.fp32_contents.extend([1, 2])
        answer = call(request)
    assert {output.name for output in answer.outputs} == {"LARGE", "SMALL"}


@pytest.mark.parametrize(
    ("model", "inputs", "code"),
    [
        ("nothing", [tensor("A", A)], NOT_FOUND),
        ("sums", [tensor("A", A)], INVALID),
        ("sums", [tensor("A", A), tensor("C", B)], INVALID),
        ("sums", [tensor("A", A), tensor("B", B[:1])], INVALID),
        ("sums", [tensor("A", A), tensor("B", B.astype(np.float64), datatype="FP64")], INVALID),
        ("sums", [tensor("A", A[None]), tensor("B", B[None])], INVALID),
        ("words", [tensor("INPUT", PAIR, datatype="BYTES")], INVALID),
    ],
    ids=["model", "missing", "name", "batch", "datatype", "rank", "shape"],
)  # fmt: skip
def test_what_is_wrong_has_the_same_status_code(
    client: sync_client.InferenceServerClient, model: str, inputs: list[Any], code: str
) -> None:
    found, words = refused(lambda: client.infer(model, inputs))
    assert found == code, words


def test_a_content_that_is_not_shape_times_type_is_refused(
    client: sync_client.InferenceServerClient,
) -> None:
    short = tensor("A", A)
    short._raw_content = short._raw_content[:-1]
    found, words = refused(lambda: client.infer("sums", [short, tensor("B", B)]))
    assert found == INVALID, words


def test_unknown_outputs_models_and_versions(client: sync_client.InferenceServerClient) -> None:
    given = [tensor("A", A), tensor("B", B)]
    wanted = [sync_client.InferRequestedOutput("MEDIUM")]
    assert refused(lambda: client.infer("sums", given, outputs=wanted))[0] == INVALID
    assert refused(lambda: client.get_model_metadata("nothing"))[0] == NOT_FOUND
    assert refused(lambda: client.get_model_config("nothing"))[0] == NOT_FOUND
    assert refused(lambda: client.infer("sums", given, model_version="7"))[0] == NOT_FOUND


# ---- what the mesh alone has


def test_our_own_client_sends_the_same_by_name(typed_mesh: Mesh) -> None:
    with Client(typed_mesh.gateway) as mesh:
        result = mesh.submit("sums", {"A": A[0], "B": B[0]}).raise_for_outcome()
        assert (result.contents["LARGE"] == 10 * (A[0] + B[0])).all()
        assert (result.contents["scale.SMALL"] == 10 * (A[0] - B[0])).all()
        with pytest.raises(InvalidRequest, match="input B is missing; sums takes A"):
            mesh.submit("sums", {"A": A[0]})
        with pytest.raises(InvalidRequest, match="send them by name"):
            mesh.submit("sums", b"bytes")


def test_a_handler_gives_arrays_and_json_by_name(typed_mesh: Mesh) -> None:
    with Client(typed_mesh.gateway) as mesh:
        result = mesh.submit("measured", b"\x02\x04").raise_for_outcome()
        assert np.asarray(result.contents["shades"]).tolist() == [1.0, 2.0]
        assert result.json("note") == {"bytes": 2}
    with sync_client.InferenceServerClient(typed_mesh.gateway) as client:
        file = np.array([[b"\x02\x04"], [b"\x06\x08"]], np.object_)
        answer = client.infer("measured", [tensor("file", file, datatype="BYTES")])
        assert answer.as_numpy("shades").tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert [json.loads(note) for (note,) in answer.as_numpy("note")] == [{"bytes": 2}] * 2


def test_a_stage_reads_one_output_in_order_and_others_by_name(typed_mesh: Mesh) -> None:
    with Client(typed_mesh.gateway) as mesh:
        result = mesh.submit("drawing", b"\x04\x02").raise_for_outcome()
        assert result.outputs == {"draw": b'\x02\x04{"bytes": 2}3.0'}


async def test_edges_that_do_not_fit_are_refused_with_what_was_expected(
    typed_mesh: Mesh,
) -> None:
    async with AsyncClient(typed_mesh.gateway) as mesh:
        stages = [PipelineStage("words"), PipelineStage("scale", ("words",))]
        with pytest.raises(InvalidRequest, match="the inputs SUM, DIFFERENCE need one output each"):
            await mesh.register_application("misfit", stages, slo_ms=60_000)
        told = await mesh.describe_application("sums")
        assert [(port.name, port.kind) for port in told.inputs] == [
            ("A", "FP32 [-1]"),
            ("B", "FP32 [-1]"),
        ]
        assert [port.name for port in told.outputs] == ["LARGE", "SMALL"]


def test_loadgen_sends_the_same_load_to_both(server: str) -> None:
    arguments = ["--protocol", "oip", "--gateway", server, "--slo-ms", "60000", "--json"]
    more = ["--rate", "20/s", "--requests", "20", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "esg.loadgen", *arguments, *more],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"words"' in done.stdout
