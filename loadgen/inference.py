"""A load for any server of the Open Inference Protocol: a gateway of ours, a Triton, a KServe.

The same arrivals go out, and the same report judges them. What such a server does not tell, nodes,
costs and deadlines, the report does not have: the deadline is given, and whether it was kept is
reckoned by the clock here. Models with one input of byte strings are sent to, a picture each.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import grpc

from esg.client import (
    ApplicationInfo,
    MeshStatus,
    Outcome,
    PipelineStage,
    Result,
)
from esg.client.errors import call_error
from esg.console.exit_codes import NothingThere
from esg.errors import Rejected
from esg.loadgen.target import Target
from esg.runtime.rpc.channels import ANY_SIZE

BYTES = "BYTES"
LIMIT_S = 30.0
NOTHING_KNOWN = MeshStatus(
    uptime_ms=0,
    policy="",
    under_way=0,
    tasks=0,
    jobs=0,
    cold_starts=0,
    local_transfers=0,
    remote_transfers=0,
    queues=(),
    nodes=(),
    applications=(),
)


def _messages() -> tuple[Any, Any]:
    """The protocol's, which are of another extra than the rest of loadgen."""
    try:
        from tritonclient.grpc import service_pb2, service_pb2_grpc
    except ImportError:
        raise Rejected("--protocol oip needs tritonclient: pip install 'esg-mesh[mesh]'") from None
    return service_pb2, service_pb2_grpc


def ask_inference(address: str, slo_ms: float) -> Target:
    """The models of a server that can be sent pictures, with the deadline that they are to keep."""
    try:
        inputs = asyncio.run(asyncio.wait_for(_inputs(address), LIMIT_S))
    except (grpc.aio.AioRpcError, TimeoutError) as error:
        said = error.details() if isinstance(error, grpc.aio.AioRpcError) else "no answer"
        raise NothingThere(f"{address} does not speak the protocol: {said}") from None
    if not inputs:
        raise Rejected(f"{address} has no ready model with one input of byte strings")
    found = {
        name: ApplicationInfo(
            name=name,
            stages=(PipelineStage(name),),
            slo_ms=slo_ms,
            version=1,
            alone_ms=slo_ms,
            fastest_ms=slo_ms,
        )
        for name in sorted(inputs)
    }
    return Target(address, found, NOTHING_KNOWN)


async def _inputs(address: str) -> dict[str, str]:
    """By model, the name of its one input of byte strings."""
    wire, stubs = _messages()
    found = {}
    async with grpc.aio.insecure_channel(address, options=ANY_SIZE) as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        index = await stub.RepositoryIndex(wire.RepositoryIndexRequest(ready=True))
        for name in {model.name for model in index.models}:
            told = await stub.ModelMetadata(wire.ModelMetadataRequest(name=name))
            if [given.datatype for given in told.inputs] == [BYTES]:
                found[name] = told.inputs[0].name
    return found


class InferSink:
    """Requests to such a server, each a call of its own. Use it with `async with`."""

    def __init__(self, address: str, slos_ms: Mapping[str, float]) -> None:
        self._address = address
        self._slos_ms = slos_ms
        self._calls: set[asyncio.Task[Result]] = set()
        self._wire, self._stubs = _messages()
        self._inputs: dict[str, str] = {}

    async def __aenter__(self) -> "InferSink":
        self._inputs = await _inputs(self._address)
        self._channel = grpc.aio.insecure_channel(self._address, options=ANY_SIZE)
        self._stub = self._stubs.GRPCInferenceServiceStub(self._channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._channel.close()

    def submit(
        self, application: str, payload: bytes, *, slo_ms: float | None, request_id: str | None
    ) -> asyncio.Future[Result]:
        call = asyncio.get_running_loop().create_task(
            self._call(application, payload, slo_ms or self._slos_ms[application], request_id or "")
        )
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    async def _call(self, model: str, payload: bytes, slo_ms: float, request_id: str) -> Result:
        asked = self._wire.ModelInferRequest(model_name=model, id=request_id)
        asked.inputs.add(name=self._inputs[model], datatype=BYTES, shape=[1, 1])
        asked.raw_input_contents.append(len(payload).to_bytes(4, "little") + payload)
        asked.parameters["esg_slo_ms"].int64_param = max(1, round(slo_ms))
        began_s = time.perf_counter()
        try:
            await self._stub.ModelInfer(asked)
        except grpc.aio.AioRpcError as error:
            raise call_error(error, self._address) from None
        latency_ms = 1000 * (time.perf_counter() - began_s)
        return Result(
            request_id=request_id,
            application=model,
            outcome=Outcome.DONE,
            reason="",
            slo_met=latency_ms <= slo_ms,
            slo_ms=slo_ms,
            latency_ms=latency_ms,
            cost_usd=0.0,
            stages=(),
        )
