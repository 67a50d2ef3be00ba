"""The emulated slices as any client of Triton sees them: a real process, and `tritonclient`.

Every test has a slice to itself, all of one process, so that none depends on another.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import pytest_asyncio
import tritonclient.grpc as sync_client
import tritonclient.grpc.aio as client
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.utils import InferenceServerException

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import scaled
from esg.core.durations import Durations, DurationSettings
from esg.core.emulated_output import emulated_output
from esg.invoker.slices.client import SERVICE
from tests.support.emulated_process import INPUT_BYTES, emulated, until_state

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEED = 7
SCALE = 0.1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fresh(catalog: Path) -> AsyncIterator[Iterator[str]]:
    """Addresses of slices that nobody has used."""
    settings = {"time_scale": str(SCALE), "invoker_seed": str(SEED), "invoker_node": "n1"}
    async with emulated(64, catalog, **settings) as process:
        yield iter(process.addresses)


@pytest.fixture
def address(fresh: Iterator[str]) -> str:
    return next(fresh)


@pytest_asyncio.fixture(loop_scope="module")
async def triton(address: str) -> AsyncIterator[Any]:
    async with client.InferenceServerClient(address) as found:
        yield found


def tensor(rows: list[list[bytes]], package: Any = client) -> Any:
    made = package.InferInput("INPUT", [len(rows), len(rows[0])], "BYTES")
    made.set_data_from_numpy(np.array(rows, dtype=np.object_))
    return made


async def infer(
    triton: Any, function: str, rows: list[list[bytes]], **parameters: int | str
) -> list[bytes]:
    result = await triton.infer(function, [tensor(rows)], parameters=parameters)
    outputs: list[list[bytes]] = result.as_numpy("OUTPUT").tolist()
    assert all(len(row) == 1 for row in outputs)
    return [row[0] for row in outputs]


async def states(triton: Any) -> dict[str, str]:
    index = await triton.get_model_repository_index()
    return {model.name: model.state for model in index.models}


async def refusal(call: Any) -> tuple[str, str]:
    """The status and the words of a call that must fail."""
    with pytest.raises(InferenceServerException) as caught:
        await call
    return caught.value.status(), caught.value.message()


async def test_a_slice_is_live_and_ready_and_says_what_it_is(triton: Any) -> None:
    assert await triton.is_server_live()
    assert await triton.is_server_ready()
    metadata = await triton.get_server_metadata()
    assert metadata.name.startswith("n1/")
    assert "model_repository" in metadata.extensions


async def test_health_and_reflection_are_served_next_to_tritons_protocol(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service=SERVICE))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING

    def services() -> Sequence[str]:
        with grpc.insecure_channel(address) as channel:
            return ProtoReflectionDescriptorDatabase(channel).get_services()

    assert SERVICE in await asyncio.to_thread(services)


async def test_every_function_is_in_the_index_but_none_is_loaded(triton: Any) -> None:
    found = await states(triton)
    assert found == dict.fromkeys(("endless", "heavy", "large", "other", "quick"), "")
    assert not await triton.is_model_ready("quick")


async def test_a_loaded_model_is_ready_and_describes_itself(triton: Any) -> None:
    await triton.load_model("quick")
    assert await triton.is_model_ready("quick")
    assert await triton.is_model_ready("quick", "1")
    assert not await triton.is_model_ready("quick", "2")
    assert (await states(triton))["quick"] == "READY"
    metadata = await triton.get_model_metadata("quick")
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        ("INPUT", "BYTES", [-1, -1])
    ]
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.outputs] == [
        ("OUTPUT", "BYTES", [-1, 1])
    ]


async def test_slices_of_one_process_have_models_of_their_own(
    triton: Any, fresh: Iterator[str]
) -> None:
    await triton.load_model("quick")
    async with client.InferenceServerClient(next(fresh)) as neighbour:
        assert (await states(neighbour))["quick"] == ""


async def test_outputs_are_what_anybody_can_reckon(triton: Any) -> None:
    await triton.load_model("quick")
    rows = [[b"one", b""], [b"two\0", b"\xff" * 70_000]]
    expected = [emulated_output("quick", row, INPUT_BYTES) for row in rows]
    assert await infer(triton, "quick", rows) == expected
    assert len(set(expected)) == 2


async def test_the_blocking_client_works_as_well(address: str) -> None:
    def story() -> Any:
        with sync_client.InferenceServerClient(address) as triton:
            triton.load_model("quick")
            result = triton.infer("quick", [tensor([[b"one"]], sync_client)], request_id="r1")
            assert result.get_response().id == "r1"
            return result.as_numpy("OUTPUT").tolist()

    assert await asyncio.to_thread(story) == [[emulated_output("quick", [b"one"], INPUT_BYTES)]]


async def test_run_takes_the_time_of_its_config_with_the_noise_of_its_key(
    triton: Any, catalog: Path
) -> None:
    await triton.load_model("quick")
    known = scaled(load_catalog(catalog), SCALE)
    durations = Durations(known, SEED, DurationSettings())
    profile = known.functions["quick"].profile
    expected_us = 0
    for config, rows, key in [
        (Config(1, 1, 1), 1, "r1/resize"),
        (Config(1, 1, 1), 1, "r2/resize"),
        (Config(4, 2, 2), 2, "r3/detect"),  # half of a batch on two slices
    ]:
        parameters = {f"esg_{name}": value for name, value in config._asdict().items()}
        await infer(triton, "quick", [[b"x"]] * rows, esg_key=key, **parameters)
        expected_us += durations.work_us("quick", key, profile.time_us_of(config))
    await infer(triton, "quick", [[b"x"], [b"y"]])  # whoever says nothing gets (rows, 1, 1)
    expected_us += durations.work_us("quick", "", profile.time_us_of(Config(2, 1, 1)))
    (found,) = (await triton.get_inference_statistics("quick")).model_stats
    assert found.inference_stats.compute_infer.ns == 1000 * expected_us


async def test_statistics_count_calls_and_rows(triton: Any) -> None:
    await triton.load_model("quick")
    await triton.load_model("other")
    await asyncio.gather(*(infer(triton, "quick", [[b"x"]] * rows) for rows in (1, 2, 2)))
    await refusal(infer(triton, "quick", [[b"x"]] * 9))
    (found,) = (await triton.get_inference_statistics("quick")).model_stats
    assert (found.inference_count, found.execution_count) == (5, 3)
    assert (found.inference_stats.success.count, found.inference_stats.fail.count) == (3, 1)
    assert {part.batch_size: part.compute_infer.count for part in found.batch_stats} == {1: 1, 2: 2}
    assert found.last_inference > 0
    everything = await triton.get_inference_statistics()
    assert [part.name for part in everything.model_stats] == ["other", "quick"]


async def test_a_model_that_is_loaded_again_counts_from_nothing(triton: Any) -> None:
    await triton.load_model("quick")
    await infer(triton, "quick", [[b"x"]])
    await triton.unload_model("quick")
    await triton.load_model("quick")
    (found,) = (await triton.get_inference_statistics("quick")).model_stats
    assert found.execution_count == 0


async def test_a_slice_runs_one_call_at_a_time(triton: Any, fresh: Iterator[str]) -> None:
    await triton.load_model("endless")
    await triton.load_model("quick")
    first = asyncio.create_task(infer(triton, "endless", [[b"x"]]))
    await until_received(triton, first)
    busy = triton.infer("quick", [tensor([[b"x"]])], client_timeout=0.5)
    assert (await refusal(busy))[0] == "StatusCode.DEADLINE_EXCEEDED"
    async with client.InferenceServerClient(next(fresh)) as neighbour:
        await neighbour.load_model("quick")
        assert await infer(neighbour, "quick", [[b"x"]])
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_call_that_is_given_up_frees_the_slice(triton: Any) -> None:
    await triton.load_model("endless")
    await triton.load_model("quick")
    first = asyncio.create_task(infer(triton, "endless", [[b"x"]]))
    await until_received(triton, first)
    second = asyncio.create_task(infer(triton, "quick", [[b"y"]]))
    await until_received(triton, second)
    first.cancel()
    assert await second == [emulated_output("quick", [b"y"], INPUT_BYTES)]
    (found,) = (await triton.get_inference_statistics("endless")).model_stats
    assert found.inference_stats.fail.count == 1


async def until_received(triton: Any, task: "asyncio.Task[Any]") -> None:
    """Calls on one connection come in in their order: what is sent before an answered one is in."""
    await asyncio.sleep(0)
    await triton.is_server_live()
    assert not task.done()


async def test_models_load_while_another_runs(triton: Any) -> None:
    await triton.load_model("endless")
    first = asyncio.create_task(infer(triton, "endless", [[b"x"]]))
    await until_received(triton, first)
    await triton.load_model("quick")
    assert (await states(triton))["quick"] == "READY"
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_loading_takes_its_time_and_shows_in_the_index(triton: Any) -> None:
    loading = asyncio.create_task(triton.load_model("heavy"))
    await until_state(lambda: states(triton), "heavy", "LOADING")
    assert not await triton.is_model_ready("heavy")
    assert not await triton.is_server_ready()
    assert await refusal(infer(triton, "heavy", [[b"x"]])) == (
        "StatusCode.NOT_FOUND",
        "Request for unknown model: 'heavy' has no available versions",
    )
    loading.cancel()
    await until_state(lambda: states(triton), "heavy", "UNAVAILABLE")


async def test_an_unloaded_model_is_gone_after_a_while(triton: Any) -> None:
    await triton.load_model("quick")
    await triton.unload_model("quick")
    assert not await triton.is_model_ready("quick")
    await until_state(lambda: states(triton), "quick", "UNAVAILABLE")
    index = await triton.get_model_repository_index()
    assert [model.reason for model in index.models if model.name == "quick"] == ["unloaded"]
    assert await triton.is_server_ready()
    assert (await refusal(infer(triton, "quick", [[b"x"]])))[0] == "StatusCode.NOT_FOUND"


async def test_a_model_may_be_loaded_while_it_is_being_unloaded(triton: Any) -> None:
    await triton.load_model("quick")
    await triton.unload_model("quick")
    await triton.load_model("quick")
    assert await infer(triton, "quick", [[b"x"]])


async def test_the_memory_of_a_model_that_is_gone_is_free(triton: Any) -> None:
    await triton.load_model("quick")
    await triton.load_model("other")
    for model in ("quick", "other"):
        await triton.unload_model(model)
        await until_state(lambda: states(triton), model, "UNAVAILABLE")
    await triton.load_model("large")
    assert await triton.is_model_ready("large")


async def test_a_model_that_does_not_fit_is_refused(triton: Any) -> None:
    await triton.load_model("large")
    await triton.load_model("quick")
    status, words = await refusal(triton.load_model("other"))
    assert status == "StatusCode.INVALID_ARGUMENT"
    assert "out of memory: 300 MB wanted, 0 MB free" in words
    assert (await states(triton))["other"] == "UNAVAILABLE"
    assert not await triton.is_server_ready()


async def test_loading_twice_is_loading_once(triton: Any) -> None:
    await asyncio.gather(*(triton.load_model("quick") for _ in range(3)))
    assert await triton.is_model_ready("quick")
    await triton.load_model("quick")


async def test_unloading_what_is_not_there_is_no_error(triton: Any) -> None:
    await triton.unload_model("quick")
    await triton.unload_model("nonsense")
    assert (await states(triton))["quick"] == ""


async def test_unknown_models_are_refused_in_tritons_words(triton: Any) -> None:
    not_found = ("StatusCode.NOT_FOUND", "Request for unknown model: 'nonsense' is not found")
    assert await refusal(infer(triton, "nonsense", [[b"x"]])) == not_found
    assert await refusal(triton.get_model_metadata("nonsense")) == not_found
    assert await refusal(triton.load_model("nonsense")) == (
        "StatusCode.INTERNAL",
        "failed to load 'nonsense', failed to poll from model repository",
    )
    assert await refusal(triton.get_inference_statistics("nonsense")) == (
        "StatusCode.INVALID_ARGUMENT",
        "requested model 'nonsense' is not available",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [2, 1]}, "expected 2 string elements"),
        ({"shape": [1]}, "has shape [1]"),
        ({"shape": [0, 1]}, "has shape [0, 1]"),
        ({"datatype": "FP32"}, "data-type is 'FP32'"),
        ({"name": "IMAGE"}, "got ['IMAGE']"),
        ({"output": "SCORE"}, "not ['SCORE']"),
        ({"raw": b"\1\0\0"}, "ends within element 0"),
        ({"raw": b"\2\0\0\0x"}, "ends within element 0"),
        ({"esg_batch": 3, "esg_vcpus": 1, "esg_vgpus": 1}, "no config 3/1/1"),
        ({"esg_batch": 1}, "no config 1/0/0"),
    ],
)
async def test_tensor_that_a_model_cannot_take_is_refused(
    address: str, change: dict[str, Any], words: str
) -> None:
    messages = client.service_pb2
    given = messages.ModelInferRequest.InferInputTensor(
        name=change.get("name", "INPUT"),
        datatype=change.get("datatype", "BYTES"),
        shape=change.get("shape", [1, 1]),
    )
    request = messages.ModelInferRequest(
        model_name="quick",
        inputs=[given],
        outputs=[messages.ModelInferRequest.InferRequestedOutputTensor(name=change["output"])]
        if "output" in change
        else [],
        raw_input_contents=[change.get("raw", b"\1\0\0\0x")],
    )
    for name in change:
        if name.startswith("esg_"):
            request.parameters[name].int64_param = change[name]
    async with grpc.aio.insecure_channel(address) as channel:
        stub = client.service_pb2_grpc.GRPCInferenceServiceStub(channel)
        await stub.RepositoryModelLoad(messages.RepositoryModelLoadRequest(model_name="quick"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ModelInfer(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in str(caught.value.details())


async def test_more_rows_than_the_whole_batch_are_refused(triton: Any) -> None:
    await triton.load_model("quick")
    call = infer(triton, "quick", [[b"x"]] * 2, esg_batch=1, esg_vcpus=1, esg_vgpus=1)
    assert "2 rows for model 'quick' in a batch of 1" in (await refusal(call))[1]
