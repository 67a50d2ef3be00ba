"""Calls about applications, functions and the mesh: the controller's to answer, passed on.

A client sees its own applications and those that are everybody's, which it may use but not change
(see `esg.runtime.security.ownership`). Whoever has no owner sees and changes them all.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from esg.errors import Rejected
from esg.gateway.access.identity import Caller
from esg.gateway.limits.validation import check_name
from esg.limits import MOST_STAGES_READ
from esg.names import LONGEST_CHOSEN
from esg.protos import controller_v1_pb2 as controller
from esg.protos import controller_v1_pb2_grpc as controller_grpc
from esg.protos import gateway_v1_pb2 as public
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import (
    AlreadyExists,
    Forbidden,
    NotFound,
    Unavailable,
    error_of,
    told_retry_after_us,
)
from esg.runtime.security.ownership import owned, plainly, seen
from esg.runtime.wire.copies import changed
from esg.suggest import did_you_mean

M = TypeVar("M", bound=Message)

CALL_TIMEOUT_S = 10.0
NO_ANSWER = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


class Applications:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._controller = controller_grpc.ControllerStub(channel)

    async def put(
        self, asked: public.RegisterApplicationRequest, caller: Caller, *, update: bool
    ) -> model.Application:
        owner = caller.owner
        _check_definition(asked, owner)
        if owner:
            await self._check_owner(asked.name, owner, exists=update)
        request = controller.PutApplicationRequest(
            name=owned(owner, asked.name),
            stages=asked.stages,
            update=update,
            late_requests=asked.late_requests,
            client=caller.name,
        )
        if asked.HasField("slo_us"):
            request.slo_us = asked.slo_us
        elif asked.HasField("slo_scale"):
            request.slo_scale = asked.slo_scale
        answer: model.Application = await _answer(self._controller.PutApplication, request, owner)
        return changed(answer, name=asked.name)

    async def all(self, owner: str) -> list[model.Application]:
        """Those that an owner sees, as that one calls them."""
        return _seen(await self._known(owner), "name", owner)

    async def one(self, name: str, owner: str) -> model.Application:
        known = {application.name: application for application in await self.all(owner)}
        if name not in known:
            raise NotFound(did_you_mean("application", name, known))
        return known[name]

    async def delete(self, name: str, caller: Caller) -> None:
        owner = caller.owner
        if owner:
            await self._check_owner(name, owner, exists=True)
        request = controller.DeleteApplicationRequest(name=owned(owner, name), client=caller.name)
        await _answer(self._controller.DeleteApplication, request, owner)

    async def reload_function(self, function: str, caller: Caller) -> list[model.NodeReload]:
        """By node, what came of it. How long that takes is for the nodes' models to say."""
        if caller.owner:
            raise Forbidden(
                f"reloading a function is for operators, and {caller.owner} is none (esg tokens "
                "add --operator)"
            )
        request = controller.ReloadFunctionRequest(function=function)
        method = self._controller.ReloadFunction
        answer = await _answer(method, request, caller.owner, timeout_s=None)
        return list(answer.nodes)

    async def watch_mesh(self, interval_ms: int, owner: str) -> AsyncIterator[model.MeshStatus]:
        """The state of the mesh, every so often, without what others own."""
        request = controller.WatchMeshRequest(interval_ms=interval_ms)
        call = self._controller.WatchMesh(request)
        try:
            async for status in call:
                yield _seen_status(status, owner) if owner else status
        except grpc.aio.AioRpcError as error:
            raise _problem(error, owner) from None
        finally:
            call.cancel()

    async def _known(self, owner: str) -> Iterable[model.Application]:
        """All that there are, whoever owns them; `owner` is who asks."""
        request = controller.ListApplicationsRequest()
        answer = await _answer(self._controller.ListApplications, request, owner)
        return answer.applications  # type: ignore[no-any-return]

    async def _check_owner(self, name: str, owner: str, *, exists: bool) -> None:
        """Whether it is the owner's to make or to change. What is not seen does not exist."""
        inside = {application.name for application in await self._known(owner)}
        own, everybodys = owned(owner, name) in inside, name in inside
        if not exists:
            if everybodys:
                raise AlreadyExists(f"application {name} is everybody's; choose another name")
        elif not own:
            if everybodys:
                raise Forbidden(
                    f"application {name} is everybody's, and not {owner}'s to change; register "
                    "one of your own under another name"
                )
            raise NotFound(
                did_you_mean("application", name, filter(None, (seen(owner, i) for i in inside)))
            )


def _check_definition(asked: public.RegisterApplicationRequest, owner: str) -> None:
    """Limits on what a client may send; whether it makes sense is the controller's to say."""
    check_name("name", asked.name, owner)
    if len(asked.stages) > MOST_STAGES_READ:
        raise Rejected(
            f"stages: there are {len(asked.stages)}; at most {MOST_STAGES_READ} are looked at"
        )
    for stage in asked.stages:
        names = (stage.name, stage.function, *stage.after)
        if len(stage.after) > len(asked.stages) or any(len(n) > LONGEST_CHOSEN for n in names):
            raise Rejected(
                f"stages: {stage.name[:LONGEST_CHOSEN]!r}: a name has at most {LONGEST_CHOSEN} "
                "characters, and a stage comes after each other one at most once"
            )


def _seen(messages: Iterable[M], field: str, owner: str) -> list[M]:
    """Those that an owner sees, under the names that one knows."""
    named = [(seen(owner, getattr(message, field)), message) for message in messages]
    return [changed(message, **{field: name}) for name, message in named if name is not None]


def _seen_status(status: model.MeshStatus, owner: str) -> model.MeshStatus:
    """The state of the mesh without what others own."""
    shown = changed(status)
    for field in ("queues", "applications"):
        shown.ClearField(field)
        getattr(shown, field).extend(_seen(getattr(status, field), "application", owner))
    return shown


async def _answer(
    method: Any, request: Any, owner: str, timeout_s: float | None = CALL_TIMEOUT_S
) -> Any:
    try:
        return await method(request, timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        raise _problem(error, owner) from None


def _problem(error: grpc.aio.AioRpcError, owner: str) -> Exception:
    if error.code() in NO_ANSWER:
        return Unavailable("the controller cannot be reached at the moment; try again")
    wait_us = told_retry_after_us(error.trailing_metadata())
    return error_of(error.code().value[0], plainly(owner, error.details() or ""), wait_us)
