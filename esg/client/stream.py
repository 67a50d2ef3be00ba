"""Many requests over one stream: what is ready goes out together, answers come as they are ready.

This is the cheap way to send thousands of requests. If the stream breaks, it is opened again, at
another gateway if there is one, and what was not answered is sent again; the ids make sure that
nothing runs twice.

A large payload goes by a call of its own, in pieces: a message that is larger than a gateway takes
is the end of its stream, and so of everybody's requests on it.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self

import grpc

from esg.client.calls import Calls, reply_result
from esg.client.closing import client_closed
from esg.client.errors import ClientError
from esg.client.loop_thread import LoopThread
from esg.client.payloads import Payload, sent
from esg.client.results import Result
from esg.client.retries import Patience
from esg.client.submission import SubmitOptions, submit_request
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.chunks import PIECE_BYTES, grouped
from esg.runtime.rpc.status import InvalidRequest, Unavailable, refusal_error

GOODBYE_S = 5.0
"""How long the gateway may take to end a stream, once everything is answered."""


class _Asked:
    """A request that is not answered yet. One without a message has a call of its own."""

    __slots__ = ("answer", "message", "patience", "request_id")

    def __init__(
        self,
        request_id: str,
        answer: asyncio.Future[Result],
        message: public.SubmitRequest | None = None,
    ) -> None:
        self.request_id = request_id
        self.answer = answer
        self.message = message
        self.patience: Patience | None = None


class RequestStream:
    """Use it with `async with`: at the end of the block everything has been answered."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._later = self._loop.call_later
        self._prefix = uuid.uuid4().hex[:16]
        self._made = 0
        self._asked: dict[str, _Asked] = {}
        self._called: set[asyncio.Task[Result]] = set()  # besides the stream
        self._outbox: BatchedSender[public.SubmitRequest] = BatchedSender()
        self._wanted = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ending = False
        self._runner: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many are not answered yet."""
        return len(self._asked)

    async def __aenter__(self) -> Self:
        self._runner = self._loop.create_task(self._run())
        self._runner.add_done_callback(self._ran)
        self._calls.closing.ends(self._runner)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                await self._idle.wait()
                await self._say_goodbye()
        finally:
            await self._close()

    def submit(
        self,
        application: str,
        payload: Payload,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
    ) -> asyncio.Future[Result]:
        """Send a request; the future gives its result.

        Cancelling the future only stops the waiting: the request goes on.

        Args:
            application: Its name, as `list_applications` tells it.
            payload: The bytes that the first stage reads, the content of a picture's file, say; or
                a numpy array, or a mapping from the names of inputs to bytes, arrays and JSON.
            slo_ms: Deadline in milliseconds after its arrival; the application's by default.
            request_id: Idempotency key, as for `Client.submit`; made up by default.
            all_stages: Give the outputs of all stages, not only those of the last ones.
        """
        if self._runner is None or self._runner.done() or self._ending:
            raise Unavailable("this stream is closed; open another one")
        if request_id is None:
            self._made += 1
            request_id = f"{self._prefix}-{self._made}"
        if request_id in self._asked:
            return self._asked[request_id].answer
        answer: asyncio.Future[Result] = self._loop.create_future()
        try:
            content, in_parts = sent(payload)
            options = SubmitOptions(
                request_id=request_id, slo_ms=slo_ms, all_stages=all_stages, in_parts=in_parts
            )
            message = None
            if len(content) <= PIECE_BYTES:
                message = submit_request(application, content, options)
        except InvalidRequest as error:
            answer.set_exception(error)  # where the gateway's refusals come, too
            return answer
        if message is None:
            asked = self._asked[request_id] = _Asked(request_id, answer)
            self._begin_call(asked, self._calls.submit(application, content, options))
        else:
            self._asked[request_id] = _Asked(request_id, answer, message)
            self._outbox.put(message)
            self._wanted.set()
        self._idle.clear()
        return answer

    # ---- the stream

    async def _run(self) -> None:
        patience = self._calls.patience()
        while True:
            await self._wanted.wait()
            if self._ending:
                return
            self._wanted.clear()
            error = await self._converse(patience)
            pause_s = patience.pause_s() if isinstance(error, Unavailable) else None
            if pause_s is None:
                self._fail_all(error)
                patience.succeeded()
            elif any(self._on_stream()):
                await asyncio.sleep(pause_s)
                self._wanted.set()

    def _ran(self, runner: asyncio.Task[None]) -> None:
        """When it ends, whatever the reason, nobody waits for it any more."""
        error = None if runner.cancelled() else runner.exception()
        self._fail_all(error if isinstance(error, Exception) else client_closed())

    async def _converse(self, patience: Patience) -> ClientError:
        """Until the stream breaks: why it did."""
        self._outbox = BatchedSender()
        for _, message in self._on_stream():
            self._outbox.put(message)
        gateway = self._calls.gateways.current
        call = gateway.stub.SubmitMany(_messages(self._outbox))
        try:
            async for group in call:
                patience.succeeded()
                for reply in group.replies:
                    self._hear(reply)
            if not self._ending:
                self._calls.gateways.failed(gateway)
            return Unavailable("the gateway has ended the stream")
        except grpc.aio.AioRpcError as failed:
            return self._calls.failed(failed, gateway)
        finally:
            self._outbox.close()
            call.cancel()

    def _on_stream(self) -> Iterator[tuple[_Asked, public.SubmitRequest]]:
        """What is to be answered by the stream; what has a call of its own is not its concern."""
        for asked in self._asked.values():
            if asked.message is not None:
                yield asked, asked.message

    def _hear(self, reply: public.Reply) -> None:
        asked = self._asked.get(reply.request_id)
        if asked is None or asked.message is None:
            return
        if reply.HasField("refusal"):
            self._refused(asked, refusal_error(reply.refusal))
        elif reply.done.fetch_outputs:
            asked.message = None  # if the stream breaks now, the call goes on
            self._begin_call(asked, self._calls.fetch(asked.request_id))
        else:
            self._answer(asked, reply_result(reply.done))

    def _refused(self, asked: _Asked, error: ClientError) -> None:
        pause_s = None
        if isinstance(error, Unavailable):
            if asked.patience is None:
                asked.patience = self._calls.patience()
            pause_s = asked.patience.pause_s()
        if pause_s is None:
            self._answer(asked, error)
        else:
            self._later(pause_s, self._send_again, asked, self._outbox)

    def _send_again(self, asked: _Asked, outbox: BatchedSender[public.SubmitRequest]) -> None:
        if outbox is not self._outbox:
            return  # the stream broke meanwhile, and the next one has sent it
        if asked.message is not None and self._asked.get(asked.request_id) is asked:
            outbox.put(asked.message)

    def _begin_call(self, asked: _Asked, call: Coroutine[Any, Any, Result]) -> None:
        task = self._loop.create_task(call)
        self._called.add(task)
        task.add_done_callback(partial(self._call_ended, asked))

    def _call_ended(self, asked: _Asked, task: asyncio.Task[Result]) -> None:
        self._called.discard(task)
        if not task.cancelled():
            error = task.exception()  # whatever it is, somebody waits for it
            self._answer(asked, task.result() if error is None else error)

    def _answer(self, asked: _Asked, answer: Result | BaseException) -> None:
        if self._asked.get(asked.request_id) is asked:  # not a later one with the same id
            del self._asked[asked.request_id]
        if not self._asked:
            self._idle.set()
        if asked.answer.done():
            return  # nobody waits any more
        if isinstance(answer, Result):
            asked.answer.set_result(answer)
        else:
            asked.answer.set_exception(answer)

    def _fail_all(self, error: Exception) -> None:
        for asked, _ in list(self._on_stream()):
            self._answer(asked, error)

    async def _say_goodbye(self) -> None:
        """Let the gateway end the stream. If it were broken off, the gateway could not know whether
        the last outputs have arrived, and would keep them for a repeat."""
        self._ending = True
        self._outbox.close()
        self._wanted.set()
        if self._runner is not None:
            await asyncio.wait({self._runner}, timeout=GOODBYE_S)

    async def _close(self) -> None:
        for asked in self._asked.values():
            asked.answer.cancel()
        self._asked.clear()
        tasks: list[asyncio.Task[Any]] = [*self._called, *([self._runner] if self._runner else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _messages(
    outbox: BatchedSender[public.SubmitRequest],
) -> AsyncIterator[public.SubmitGroup]:
    """Groups that are no larger than a piece, so that no answer waits for a long message."""
    async for requests in outbox.groups():
        for group in grouped(requests, PIECE_BYTES, public.SubmitRequest.ByteSize):
            yield public.SubmitGroup(requests=group)


class SyncRequestStream:
    """`RequestStream` for threads: answers are `concurrent.futures.Future`s."""

    def __init__(self, loop: LoopThread, stream: RequestStream) -> None:
        self._loop = loop
        self._stream = stream

    def submit(
        self,
        application: str,
        payload: Payload,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
    ) -> "Future[Result]":
        """Send a request; the future gives its result.

        Cancelling the future only stops the waiting: the request goes on.

        Args:
            application: Its name, as `list_applications` tells it.
            payload: The bytes that the first stage reads, the content of a picture's file, say; or
                a numpy array, or a mapping from the names of inputs to bytes, arrays and JSON.
            slo_ms: Deadline in milliseconds after its arrival; the application's by default.
            request_id: Idempotency key, as for `Client.submit`; made up by default.
            all_stages: Give the outputs of all stages, not only those of the last ones.
        """

        async def answer() -> Result:
            return await self._stream.submit(
                application, payload, slo_ms=slo_ms, request_id=request_id, all_stages=all_stages
            )

        return self._loop.begin(answer())
