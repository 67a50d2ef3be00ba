"""Calls about applications and the mesh as a whole: the controller's to answer, passed on."""

from collections.abc import AsyncIterator
from typing import Any

import grpc

from esg.spelling import one_of
from mesh.problems import NotFound, Unavailable, problem
from protos import controller_v1_pb2 as controller
from protos import controller_v1_pb2_grpc as controller_grpc
from protos import gateway_v1_pb2 as public
from protos import model_v1_pb2 as model

CALL_TIMEOUT_S = 10.0


class Applications:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._controller = controller_grpc.ControllerStub(channel)

    async def put(
        self, asked: public.RegisterApplicationRequest, *, update: bool
    ) -> model.Application:
        request = controller.PutApplicationRequest(
            name=asked.name, stages=asked.stages, update=update
        )
        if asked.HasField("slo_us"):
            request.slo_us = asked.slo_us
        elif asked.HasField("slo_scale"):
            request.slo_scale = asked.slo_scale
        answer: model.Application = await _answer(self._controller.PutApplication, request)
        return answer

    async def all(self) -> list[model.Application]:
        request = controller.ListApplicationsRequest()
        answer: controller.ListApplicationsReply = await _answer(
            self._controller.ListApplications, request
        )
        return list(answer.applications)

    async def one(self, name: str) -> model.Application:
        known = {application.name: application for application in await self.all()}
        if name not in known:
            raise NotFound(one_of("application", name, known))
        return known[name]

    async def delete(self, name: str) -> None:
        request = controller.DeleteApplicationRequest(name=name)
        await _answer(self._controller.DeleteApplication, request)

    async def watch_mesh(self, interval_ms: int) -> AsyncIterator[model.MeshStatus]:
        request = controller.WatchMeshRequest(interval_ms=interval_ms)
        call = self._controller.WatchMesh(request)
        try:
            async for status in call:
                yield status
        except grpc.aio.AioRpcError as error:
            raise _problem(error) from None
        finally:
            call.cancel()


async def _answer(method: Any, request: Any) -> Any:
    try:
        return await method(request, timeout=CALL_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        raise _problem(error) from None


def _problem(error: grpc.aio.AioRpcError) -> Exception:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return Unavailable("the controller cannot be reached at the moment; try again")
    return problem(code.value[0], details)
