"""ModelStreamInfer: many requests on one stream, answered in their order, as Triton does it.

They run at the same time. What is wrong with one is said in its answer. A stream is read no faster
than it is answered, as with `gateway.submit_stream`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as wire

from esg.gateway.access.identity import Caller
from esg.gateway.inference.inference import Inference
from esg.gateway.inference.messages import answer_to_wire, is_typed, request_of
from esg.gateway.request import TrackedRequest
from esg.gateway.requests import Requests
from esg.runtime.rpc.status import published, status
from esg.runtime.settings import GatewaySettings

Refused = Callable[[str, grpc.StatusCode], None]


class _Turn:
    """One request on a stream: its answer, when there is one, and when that was sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reply: asyncio.Future[Any] = loop.create_future()
        self.sent = asyncio.Event()


class InferStream:
    """`refused` hears of requests that were answered with an error: which, and what."""

    def __init__(
        self,
        inference: Inference,
        requests: Requests,
        caller: Caller,
        remaining_s: float | None,
        settings: GatewaySettings,
        refused: Refused,
    ) -> None:
        self._inference = inference
        self._requests = requests
        self._caller = caller
        self._loop = asyncio.get_running_loop()
        self._until_s = None if remaining_s is None else self._loop.time() + remaining_s
        self._unanswered = asyncio.Semaphore(settings.max_unanswered)
        self._refused = refused
        self._turns: asyncio.Queue[_Turn | None] = asyncio.Queue()
        self._calls: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None

    async def replies(self, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Until the client has no more to ask, and has got every reply."""
        self._reader = self._loop.create_task(self._read(messages))
        self._reader.add_done_callback(lambda _: self._turns.put_nowait(None))
        try:
            while (turn := await self._turns.get()) is not None:
                yield await turn.reply
                turn.sent.set()
                self._unanswered.release()
            if not self._reader.cancelled():
                self._reader.result()  # what was wrong with a message is the end of the stream
        finally:
            tasks = [self._reader, *self._calls]
            if self._calls and self._reader.done():
                await asyncio.wait(self._calls, timeout=0)  # what was sent is over by itself
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def hear_no_more(self) -> None:
        """Read no further; what was read is still answered."""
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self, messages: AsyncIterator[Any]) -> None:
        async for message in messages:
            await self._unanswered.acquire()
            turn = _Turn(self._loop)
            self._turns.put_nowait(turn)
            call = self._loop.create_task(self._call(message, turn))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self, message: Any, turn: _Turn) -> None:
        request_id, model = message.id, message.model_name
        async with AsyncExitStack() as stack:
            made: list[TrackedRequest] = []
            try:
                caller = self._requests.admit(self._caller)
                asked, typed = request_of(message), is_typed(message)
                del message
                left_s = None if self._until_s is None else self._until_s - self._loop.time()
                answer = await self._inference.infer(asked, caller, left_s, stack)
                made = answer.requests
                told = answer_to_wire(asked, answer, typed=typed)
                reply = wire.ModelStreamInferResponse(infer_response=told)
            except Exception as error:
                code, words = status(published(error, request=request_id))
                self._refused(model, code)
                told = wire.ModelInferResponse(id=request_id, model_name=model)
                reply = wire.ModelStreamInferResponse(error_message=words, infer_response=told)
            turn.reply.set_result(reply)
            await turn.sent.wait()
            for request in made:
                request.delivered = True
