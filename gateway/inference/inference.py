"""One request of the Open Inference Protocol: as many requests of the mesh as it is a batch of, and
one answer. No transport is known here: gRPC and REST say the same in their own words.

Every one of the requests goes the way of all others (`gateway.requests`), through the same limits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from esg.gateway.access.identity import Caller
from esg.gateway.inference.models import Model, ModelDirectory
from esg.gateway.inference.options import InferOptions, details
from esg.gateway.inference.payloads import Tensor, answer, check_wanted, payloads
from esg.gateway.limits.validation import check_id
from esg.gateway.request import TrackedRequest
from esg.gateway.requests import Requests
from esg.names import LONGEST_CHOSEN, PLAIN
from esg.protos import gateway_v1_pb2 as public
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import Cancelled, DeadlineExceeded, ServerError
from esg.runtime.settings import GatewaySettings
from esg.units import US_PER_S

T = TypeVar("T")

LONGEST_LABEL = 60
"""Of an id of a client, as the beginning of a request's own: in logs the two are seen together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferRequest:
    """What is asked. `outputs` are those that are wanted; none: all there are."""

    model: str
    version: str = ""
    id: str = ""
    inputs: Sequence[Tensor]
    outputs: Sequence[str] = ()
    options: InferOptions = field(default_factory=InferOptions)


class InferAnswer(NamedTuple):
    """What is answered, and the requests that made it: of whoever gets it, it was delivered."""

    model: Model
    outputs: list[Tensor]
    parameters: Mapping[str, bool | int | str]
    requests: list[TrackedRequest]


class _Done(NamedTuple):
    request: TrackedRequest
    result: model.Result
    outputs: dict[str, bytes | memoryview]


class Inference:
    def __init__(
        self, requests: Requests, models: ModelDirectory, settings: GatewaySettings
    ) -> None:
        self._requests = requests
        self._models = models
        self._settings = settings

    @property
    def largest_batch(self) -> int:
        return self._settings.max_group

    async def infer(
        self,
        asked: InferRequest,
        caller: Caller,
        remaining_s: float | None,
        stack: AsyncExitStack,
        *,
        paid: bool = False,
    ) -> InferAnswer:
        """Run it, for a caller that was admitted once. The requests are left when the stack is
        closed: when the answer was sent. With `paid`, memory for its message was reserved."""
        timeout_us = asked.options.timeout_us
        if timeout_us is None:
            return await self._infer(asked, caller, remaining_s, stack, paid=paid)
        limit_s = timeout_us / US_PER_S
        left_s = limit_s if remaining_s is None else min(limit_s, remaining_s)
        try:
            async with asyncio.timeout(limit_s):
                return await self._infer(asked, caller, left_s, stack, paid=paid)
        except TimeoutError:
            raise DeadlineExceeded(f"timeout: {timeout_us} us are over") from None

    async def _infer(
        self,
        asked: InferRequest,
        caller: Caller,
        remaining_s: float | None,
        stack: AsyncExitStack,
        *,
        paid: bool,
    ) -> InferAnswer:
        found = await self._models.find(asked.model, caller.owner, asked.version)
        check_wanted(found, asked.outputs)
        contents, batched = payloads(found, asked.inputs, self.largest_batch)
        for _ in contents[1:]:
            caller = self._requests.admit(caller)
        count = len(contents)

        async def one(place: int) -> _Done:
            spec, label = self._spec(asked, place, count)
            charge = stack.enter_context(self._requests.charge(spec, caller))
            content, contents[place] = contents[place], b""
            if paid and count == 1:
                charge.add_received(content)
            else:
                await charge.wait_and_add(content, self._settings.upload_silent_s)
            del content
            submitted = self._requests.submitted(spec, charge, caller, remaining_s, label=label)
            request = await stack.enter_async_context(submitted)
            result = _done(await self._requests.valid_end(request))
            outputs = await self._requests.outputs(request, result)
            return _Done(request, result, dict(outputs))

        done = await _together([partial(one, place) for place in range(count)])
        outputs = answer(found, [d.outputs for d in done], asked.outputs, batched=batched)
        told = details([d.result for d in done]) if asked.options.details else {}
        return InferAnswer(found, outputs, told, [d.request for d in done])

    def _spec(
        self, asked: InferRequest, place: int, count: int
    ) -> tuple[public.SubmitRequest, str]:
        """One request of a batch, and what its id is to begin with if it has none of its own."""
        spec = public.SubmitRequest(application=asked.model, slo_us=asked.options.slo_us)
        if asked.options.idempotent:
            check_id(asked.id)
            spec.request_id = asked.id if count == 1 else check_id(f"{asked.id}.{place}")
            return spec, ""
        usable = PLAIN.fullmatch(asked.id) and len(asked.id) <= LONGEST_LABEL
        return spec, asked.id if usable else ""


assert LONGEST_LABEL < LONGEST_CHOSEN


def _done(result: model.Result) -> model.Result:
    """A result with outputs; any other end is an error to the protocol."""
    reason = result.reason or "no reason was given"
    match result.outcome:
        case model.OUTCOME_DONE:
            return result
        case model.OUTCOME_CANCELLED:
            raise Cancelled(f"the request was cancelled: {reason}")
        case model.OUTCOME_DROPPED:
            raise DeadlineExceeded(f"the request could not be in time: {reason}")
        case _:
            raise ServerError(f"the request failed: {reason}")


async def _together(works: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """All of them at the same time; when one fails, the others are broken off."""
    if len(works) == 1:
        return [await works[0]()]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(work)) for work in works]
    except BaseExceptionGroup as failed:
        raise _first(failed) from None
    return [task.result() for task in tasks]


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
