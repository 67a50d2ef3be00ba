"""The Open Inference Protocol at the gateway: its requests are requests like all others, and pass
the same guard."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as wire
from tritonclient.grpc import service_pb2_grpc as wire_grpc

from esg.client import AsyncClient, InvalidRequest, PipelineStage
from esg.client.credentials import Credentials, authorized
from esg.parts import unpacked
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from esg.tensors import elements_of
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import (
    ENDLESS,
    FAILING,
    KNOWN,
    ScriptedController,
    application,
)
from tests.support.token_clients import Clients, refusal
from tests.support.waiting import until

BOXES = "boxes"
REFUSED = grpc.StatusCode.INVALID_ARGUMENT
Stub = wire_grpc.GRPCInferenceServiceStub


def boxes() -> model.Application:
    """One whose input is a tensor; what it gives is as scripted: its payload backwards."""
    found = application(BOXES)
    del found.inputs[:]
    found.inputs.add(name="boxes", datatype="FP32", shape=[-1, 4])
    return found


@pytest.fixture
async def inference(address: str, controller: ScriptedController) -> AsyncIterator[Stub]:
    controller.playing = True
    for name in (ENDLESS, FAILING):
        controller.applications[name] = application(name)
    controller.applications[BOXES] = boxes()
    async with channel(address) as link:
        yield Stub(link)


def raw(*contents: bytes) -> bytes:
    return b"".join(len(content).to_bytes(4, "little") + content for content in contents)


def asked(*contents: bytes, to: str = KNOWN, **fields: Any) -> Any:
    """A batch of byte strings."""
    request = wire.ModelInferRequest(model_name=to, **fields)
    request.inputs.add(name="input", datatype="BYTES", shape=[len(contents), 1])
    request.raw_input_contents.append(raw(*contents))
    return request


def with_parameters(request: Any, **parameters: Any) -> Any:
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    for name, value in parameters.items():
        setattr(request.parameters[name], kinds[type(value)], value)
    return request


async def told(controller: ScriptedController, kind: str, count: int = 1) -> list[Any]:
    """What the gateway has said of this kind, when it was said so often."""

    def found() -> list[Any]:
        return [getattr(note, kind) for note in controller.played if note.HasField(kind)]

    await until(lambda: len(found()) >= count)
    return found()


async def test_a_request_is_answered_with_its_id(inference: Stub) -> None:
    answer = await inference.ModelInfer(asked(b"abc", id="7 of 9!"))
    assert (answer.model_name, answer.model_version, answer.id) == (KNOWN, "1", "7 of 9!")
    (output,) = answer.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("output", "BYTES", [1, 1])
    assert list(answer.raw_output_contents) == [raw(b"cba")]
    assert not answer.parameters


async def test_typed_contents_are_answered_typed(inference: Stub) -> None:
    request = wire.ModelInferRequest(model_name=KNOWN)
    tensor = request.inputs.add(name="input", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"abc")
    answer = await inference.ModelInfer(request)
    assert list(answer.outputs[0].contents.bytes_contents) == [b"cba"]
    assert list(answer.outputs[0].shape) == [1]  # as it was asked: without a batch
    assert not answer.raw_output_contents


async def test_a_batch_is_as_many_requests_and_one_answer(
    inference: Stub, controller: ScriptedController
) -> None:
    answer = await inference.ModelInfer(asked(b"ab", b"cd", b"ef"))
    assert list(answer.raw_output_contents) == [raw(b"ba", b"dc", b"fe")]
    submissions = await told(controller, "submission", 3)
    assert len({submission.request_id for submission in submissions}) == 3


async def test_ids_of_clients_begin_those_of_requests(
    inference: Stub, controller: ScriptedController
) -> None:
    await inference.ModelInfer(asked(b"abc", id="mine"))
    await inference.ModelInfer(asked(b"abd", id="mine"))
    names = {found.request_id for found in await told(controller, "submission", 2)}
    assert len(names) == 2
    assert all(name.startswith("mine.") for name in names)


async def test_an_id_that_is_to_be_a_key_has_its_request_run_once(
    inference: Stub, controller: ScriptedController
) -> None:
    def once(content: bytes) -> Any:
        return with_parameters(asked(content, id="r1"), esg_idempotent=True)

    await inference.ModelInfer(once(b"abc"))
    await inference.ModelInfer(once(b"abc"))
    code, words = await refusal(inference.ModelInfer(once(b"other")))
    submissions = await told(controller, "submission")
    assert {found.request_id for found in submissions} == {"r1"}
    assert len({found.content_hash for found in submissions[:2]}) == 1
    assert code is grpc.StatusCode.ALREADY_EXISTS, words


async def test_what_it_cost_and_when_it_ran_is_told_on_request(inference: Stub) -> None:
    answer = await inference.ModelInfer(with_parameters(asked(b"abc"), esg_details=True))
    told = answer.parameters
    assert told["esg_slo_met"].bool_param
    assert told["esg_latency_us"].int64_param > 0
    assert float(told["esg_cost_usd"].string_param) > 0
    (request,) = json.loads(told["esg_requests"].string_param)
    assert [stage["stage"] for stage in request["stages"]] == ["first", "second"]
    assert request["stages"][0].keys() >= {"node", "config", "started_us", "finished_us"}


async def test_deadlines_are_passed_on(inference: Stub, controller: ScriptedController) -> None:
    request = with_parameters(asked(b"abc"), esg_slo_ms=250.5, timeout=60_000_000)
    await inference.ModelInfer(request)
    (submission,) = await told(controller, "submission")
    assert submission.slo_us == 250_500
    assert 0 < submission.deadline_us <= 60_000_000


async def test_a_timeout_ends_the_call_and_the_request(
    inference: Stub, controller: ScriptedController
) -> None:
    request = with_parameters(asked(b"abc", to=ENDLESS), timeout=200_000)
    code, words = await refusal(inference.ModelInfer(request))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "200000 us" in words
    await told(controller, "leave")


async def test_a_call_that_is_broken_off_leaves_all_its_requests(
    inference: Stub, controller: ScriptedController
) -> None:
    call = inference.ModelInfer(asked(b"ab", b"cd", to=ENDLESS))
    await told(controller, "submission", 2)
    call.cancel()
    await told(controller, "leave", 2)


async def test_a_request_that_fails_is_an_error(inference: Stub) -> None:
    code, words = await refusal(inference.ModelInfer(asked(b"no luck", to=FAILING)))
    assert code is grpc.StatusCode.INTERNAL
    assert "no luck" in words


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ([], "input input is missing; reversal takes input (application/octet-stream)"),
        ([("inputs", "BYTES", [1], raw(b"a"))], "unknown input 'inputs'; did you mean 'input'?"),
        ([("input", "BYTES", [1], raw(b"a"))] * 2, "input input is given twice"),
        ([("input", "FP32", [1, 1], bytes(4))], "reversal takes BYTES [-1, 1]"),
        ([("input", "FP31", [1, 1], bytes(4))], "unknown datatype 'FP31'"),
        ([("input", "BYTES", [1, 2], raw(b"a", b"b"))], "input input is BYTES [1, 2]; reversal"),
        ([("input", "BYTES", [2, 1], raw(b"a"))], "1 byte strings, where shape [2, 1] has 2"),
        ([("input", "BYTES", [-1, 1], raw(b"a"))], "a dimension is a whole number from 0 on"),
        ([("input", "BYTES", [0, 1], b"")], "a batch of 0"),
        ([("input", "BYTES", [1, 1], b"\xff\0\0\0")], "ends within element 0"),
        ([("input", "UINT8", [2, 2, 3], bytes(12))], "reversal takes BYTES [-1, 1]"),
    ],
)
async def test_tensors_that_are_no_inputs_are_refused_with_what_was_expected(
    inference: Stub, tensors: list[tuple[str, str, list[int], bytes]], words: str
) -> None:
    request = wire.ModelInferRequest(model_name=KNOWN)
    for name, datatype, shape, content in tensors:
        request.inputs.add(name=name, datatype=datatype, shape=shape)
        request.raw_input_contents.append(content)
    code, said = await refusal(inference.ModelInfer(request))
    assert code is REFUSED
    assert words in said


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"priority": 1}, "there are no priorities here; what decides is the deadline"),
        ({"sequence_id": 7}, "keeps nothing between requests"),
        ({"temperature": 0.5}, "parameter unknown name 'temperature'"),
        ({"esg_slo": 5}, "did you mean 'esg_slo_ms'?"),
        ({"esg_slo_ms": -1}, "must be a number above 0"),
        ({"esg_slo_ms": "fast"}, "must be a number above 0"),
        ({"timeout": "1 s"}, "must be microseconds"),
        ({"esg_details": 1}, "must be true or false"),
        ({"esg_idempotent": True}, "no id that could be its key"),
    ],
)
async def test_what_is_not_there_is_refused_and_not_ignored(
    inference: Stub, parameters: dict[str, Any], words: str
) -> None:
    code, said = await refusal(inference.ModelInfer(with_parameters(asked(b"a"), **parameters)))
    assert code is REFUSED
    assert words in said


async def test_what_means_nothing_is_taken(inference: Stub) -> None:
    parameters = {"sequence_id": 0, "sequence_start": False, "priority": 0, "timeout": 0}
    answer = await inference.ModelInfer(with_parameters(asked(b"ab"), **parameters))
    assert list(answer.raw_output_contents) == [raw(b"ba")]


async def test_there_is_no_shared_memory_with_clients(inference: Stub) -> None:
    request = asked(b"ab")
    request.inputs[0].parameters["shared_memory_region"].string_param = "region"
    code, said = await refusal(inference.ModelInfer(request))
    assert (code, "no shared memory here" in said) == (REFUSED, True)
    status = wire.SystemSharedMemoryStatusRequest()
    code, said = await refusal(inference.SystemSharedMemoryStatus(status))
    assert (code, "no shared memory" in said) == (grpc.StatusCode.UNIMPLEMENTED, True)
    load = wire.RepositoryModelLoadRequest(model_name=KNOWN)
    code, said = await refusal(inference.RepositoryModelLoad(load))
    assert (code, "esg apps add" in said) == (grpc.StatusCode.FAILED_PRECONDITION, True)


async def test_models_outputs_and_versions_that_are_not_there(inference: Stub) -> None:
    code, said = await refusal(inference.ModelInfer(asked(b"a", to="reversals")))
    assert (code, "did you mean 'reversal'?" in said) == (grpc.StatusCode.NOT_FOUND, True)
    code, said = await refusal(inference.ModelInfer(asked(b"a", model_version="2")))
    assert (code, "unknown version '2'" in said) == (grpc.StatusCode.NOT_FOUND, True)
    request = asked(b"a")
    request.outputs.add(name="outputs")
    code, said = await refusal(inference.ModelInfer(request))
    assert (code, "did you mean 'output'?" in said) == (REFUSED, True)


async def test_a_tensor_is_sent_on_as_it_is_declared(
    inference: Stub,
) -> None:
    request = wire.ModelInferRequest(model_name=BOXES)
    request.inputs.add(name="boxes", datatype="FP32", shape=[2, 1, 4])
    request.raw_input_contents.append(np.arange(8, dtype="<f4").tobytes())
    answer = await inference.ModelInfer(request)
    payloads = [bytes(blob)[::-1] for blob in elements_of(answer.raw_output_contents[0])]
    contents = [(part.shape, bytes(part.content)) for blob in payloads for part in unpacked(blob)]
    numbers = np.arange(8, dtype="<f4").reshape(2, 1, 4)
    assert contents == [((1, 4), numbers[n].tobytes()) for n in range(2)]
    request.inputs[0].shape[:] = [2, 4, 1]
    code, said = await refusal(inference.ModelInfer(request))
    assert (code, "boxes takes FP32 [-1, -1, 4]" in said) == (REFUSED, True)


async def test_bytes_for_an_application_of_tensors_are_refused_at_our_own_door_too(
    inference: Stub, address: str
) -> None:
    await inference.ModelReady(wire.ModelReadyRequest(name=BOXES))
    async with AsyncClient(address) as client:
        with pytest.raises(InvalidRequest, match=r"boxes takes boxes \(FP32 \[-1, 4\]\)"):
            await client.submit(BOXES, b"bytes")
        with pytest.raises(InvalidRequest, match="unknown input 'box'; did you mean 'boxes'"):
            await client.submit(BOXES, {"box": np.zeros((1, 4), np.float32)})
        with pytest.raises(InvalidRequest, match=r"boxes is FP64 \[1, 4\]"):
            await client.submit(BOXES, np.zeros((1, 4)))
        await client.submit(BOXES, np.zeros((1, 4), np.float32))


async def answers(stub: Stub, *requests: Any) -> list[Any]:
    call = stub.ModelStreamInfer(iter(requests))
    return [answer async for answer in call]


async def test_a_stream_answers_in_order_and_what_is_wrong_in_its_place(inference: Stub) -> None:
    found = await answers(
        inference, asked(b"ab", id="1"), asked(b"x", id="2", to="nothing"), asked(b"cd", id="3")
    )
    assert [answer.infer_response.id for answer in found] == ["1", "2", "3"]
    assert "unknown model 'nothing'" in found[1].error_message
    assert [list(a.infer_response.raw_output_contents) for a in found[::2]] == [
        [raw(b"ba")],
        [raw(b"dc")],
    ]


async def test_the_last_answer_of_a_stream_is_marked_if_that_is_asked_for(
    inference: Stub,
) -> None:
    request = with_parameters(asked(b"ab"), triton_enable_empty_final_response=True)
    (answer,) = await answers(inference, request)
    assert answer.infer_response.parameters["triton_final_response"].bool_param


async def test_statistics_count_what_was_done(inference: Stub) -> None:
    await inference.ModelInfer(asked(b"ab", b"cd"))
    told = await inference.ModelStatistics(wire.ModelStatisticsRequest(name=KNOWN))
    (found,) = told.model_stats
    assert (found.name, found.inference_count, found.inference_stats.success.count) == (KNOWN, 2, 2)
    assert found.inference_stats.success.ns > 0


async def test_an_application_that_was_just_changed_is_known(
    inference: Stub, address: str, controller: ScriptedController
) -> None:
    assert not (await inference.ModelReady(wire.ModelReadyRequest(name="new"))).ready
    async with AsyncClient(address) as client:
        await client.register_application("new", [PipelineStage("blur")], slo_ms=100)
        assert (await inference.ModelReady(wire.ModelReadyRequest(name="new"))).ready
        await client.delete_application("new")
    assert not (await inference.ModelReady(wire.ModelReadyRequest(name="new"))).ready


# ---- the guard


async def stub_of(clients: Clients, token: str, stack: Any) -> Stub:
    link = await stack.enter_async_context(channel(clients.address))
    return authorized(Stub(link), Credentials(token=token))


async def test_every_call_needs_a_token_where_tokens_are_needed(clients: Clients) -> None:
    async with channel(clients.address) as link:
        for call in (
            Stub(link).ServerLive(wire.ServerLiveRequest()),
            Stub(link).ModelInfer(asked(b"abc")),
            Stub(link).RepositoryIndex(wire.RepositoryIndexRequest()),
        ):
            code, _ = await refusal(call)
            assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_a_client_sees_and_calls_its_own_models_and_those_of_everybody(
    clients: Clients, controller: ScriptedController
) -> None:
    controller.playing = True
    controller.applications["alice~photo"] = application("alice~photo")
    async with AsyncExitStack() as stack:
        alice, bob, root = [await stub_of(clients, n, stack) for n in ("alice", "bob", "root")]
        index = wire.RepositoryIndexRequest()
        names = [[m.name for m in (await s.RepositoryIndex(index)).models] for s in (alice, bob)]
        assert names == [[ENDLESS, "photo", KNOWN], [ENDLESS, KNOWN]]
        answer = await alice.ModelInfer(asked(b"ab", to="photo"))
        assert (answer.model_name, list(answer.raw_output_contents)) == ("photo", [raw(b"ba")])
        for name in ("photo", "alice~photo"):
            code, _ = await refusal(bob.ModelInfer(asked(b"ab", to=name)))
            assert code is grpc.StatusCode.NOT_FOUND
        ready = wire.ModelReadyRequest(name="alice~photo")
        assert (await root.ModelReady(ready)).ready


async def test_quotas_count_every_request_of_a_batch(
    clients: Clients, controller: ScriptedController
) -> None:
    controller.playing = True
    clients.allow("carol", requests_per_s=0.001, burst=3, in_flight=2)
    async with AsyncExitStack() as stack:
        carol = await stub_of(clients, "carol", stack)
        code, words = await refusal(carol.ModelInfer(asked(b"a", b"b", b"c", b"d")))
        assert (code, "per second" in words) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        clients.allow("carol", requests_per_s=1000, burst=1000, in_flight=2)
        code, words = await refusal(carol.ModelInfer(asked(b"a", b"b", b"c", to=ENDLESS)))
        assert (code, "under way" in words) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        for note in await told(controller, "leave", 2):
            controller.end(note, model.OUTCOME_CANCELLED)
        answer = await carol.ModelInfer(asked(b"ab"))
        assert list(answer.raw_output_contents) == [raw(b"ba")]


async def test_a_gateway_without_a_controller_is_live_and_not_ready(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start()
    async with channel(address) as link:
        stub = Stub(link)
        assert (await stub.ServerReady(wire.ServerReadyRequest())).ready
        await controller.stop()

        async def waits() -> bool:
            return not (await stub.ServerReady(wire.ServerReadyRequest())).ready

        await until(waits)
        assert (await stub.ServerLive(wire.ServerLiveRequest())).live


async def test_nothing_is_left_of_requests_that_were_answered(inference: Stub, keys: Any) -> None:
    await inference.ModelInfer(asked(b"ab", b"cd"))
    await asyncio.gather(*(inference.ModelInfer(asked(b"ef")) for _ in range(5)))
    await until(lambda: keys() == [])
