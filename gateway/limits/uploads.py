"""Payloads on their way in: in one message with their request, or in pieces of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable

from esg.errors import Rejected
from esg.gateway.limits.rate_limits import PayloadCharge
from esg.gateway.limits.validation import check_payload
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.status import Exhausted
from esg.runtime.settings import GatewaySettings


def detached(asked: public.SubmitRequest) -> tuple[public.SubmitRequest, bytes]:
    """A request without its payload, and the payload. A message keeps all that it was read from,
    its whole group too; so what is to be held for longer is taken out of it."""
    alone = public.SubmitRequest()
    for field, value in asked.ListFields():
        if field.name != "payload":
            setattr(alone, field.name, value)
    return alone, asked.payload


class Upload:
    """A request whose payload comes in pieces, each of which is paid for before it is kept."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._pieces: list[bytes] = []
        self._size = 0
        self._charge: PayloadCharge | None = None
        self.fetched_later = False

    async def receive(
        self,
        chunks: AsyncIterator[public.SubmitChunk],
        charge: Callable[[public.SubmitRequest], PayloadCharge],
    ) -> tuple[public.SubmitRequest, PayloadCharge]:
        """Read all of it: the request, and its payload with what that is charged for.

        What is too large or cannot be paid for is still read, up to twice the limit, but not kept:
        a client that is refused while it sends sees its sending fail, and not the reason.
        """
        limit = self._settings.max_payload_bytes
        asked: public.SubmitRequest | None = None
        refused: Exhausted | None = None
        while self._size <= 2 * limit and (chunk := await self._next(chunks)) is not None:
            match chunk.WhichOneof("part"), asked:
                case "request", None:
                    asked, piece = detached(chunk.request)
                    self.fetched_later = chunk.fetched_later
                    self._charge = charge(asked)
                case "payload", public.SubmitRequest():
                    piece = chunk.payload
                case _:
                    raise Rejected(
                        "chunks: the first must be the request, and all others its payload"
                    )
            self._size += len(piece)
            if self._size <= limit and refused is None:
                refused = self._keep(piece)
        if asked is None or self._charge is None:
            raise Rejected("chunks: there are none; the first must be the request")
        if refused is not None:
            try:
                raise refused
            finally:
                del refused  # with its traceback, in which is this frame
        check_payload(self._size, self._settings)
        self._charge.content = b"".join(self._pieces)
        self._pieces.clear()
        return asked, self._charge

    def _keep(self, piece: bytes) -> Exhausted | None:
        assert self._charge is not None
        try:
            self._charge.add(len(piece))
        except Exhausted as error:
            self._pieces.clear()
            self._charge.release()
            return error
        self._pieces.append(piece)
        return None

    async def _next(self, chunks: AsyncIterator[public.SubmitChunk]) -> public.SubmitChunk | None:
        silent_s = self._settings.upload_silent_s
        try:
            async with asyncio.timeout(silent_s):
                return await anext(chunks, None)
        except TimeoutError:
            raise Exhausted(f"the upload was silent for {silent_s:g} s; begin it again") from None
