"""The link to the controller: one stream, made again whenever it breaks.

While it is down, new requests are refused; those under way wait for it, but not for ever.
"""

import asyncio
import logging
import secrets

import grpc

from esg.backoff import Backoff
from esg.gateway.request_table import RequestTable
from esg.protos import controller_v1_pb2 as controller
from esg.protos import controller_v1_pb2_grpc as controller_grpc
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.status import Unavailable
from esg.runtime.security.tls import explained

log = logging.getLogger(__name__)

GIVE_UP_S = 10.0
BACKOFF_S = Backoff(0.05, 1.0)


class ControllerStream:
    def __init__(self, channel: grpc.aio.Channel, table: RequestTable) -> None:
        self._channel = channel
        self._stub = controller_grpc.ControllerStub(channel)
        self._table = table
        self._session = secrets.token_hex(8)  # by which the controller knows us on any stream
        self.up = asyncio.Event()

    async def run(self) -> None:
        """Keep the link, until this is cancelled."""
        failures = 0
        while True:
            await self._reachable()
            failures = 0 if await self._converse() else failures + 1
            await asyncio.sleep(BACKOFF_S.pause(failures))

    async def _reachable(self) -> None:
        """Wait for a connection. gRPC tries again by itself, with pauses of its own."""
        while True:
            try:
                async with asyncio.timeout(GIVE_UP_S):
                    await self._channel.channel_ready()
                return
            except TimeoutError:
                log.warning("controller not reached", extra=about(seconds=GIVE_UP_S))
                self._table.give_up(
                    Unavailable("the controller cannot be reached; try again, with the same id")
                )

    async def _converse(self) -> bool:
        """Until the stream breaks: whether anything was heard."""
        outbox: BatchedSender[controller.GatewayNote] = BatchedSender()
        call = self._stub.Admit(outbox.messages(lambda notes: controller.FromGateway(notes=notes)))
        heard = False
        outbox.put(controller.GatewayNote(session=self._session))
        self._table.link_made(outbox.put)
        self.up.set()
        log.info("controller reached")
        try:
            async for message in call:
                heard = True
                for note in message.notes:
                    self._table.hear(note)
            log.warning("controller lost", extra=about(reason="it has ended the stream"))
        except grpc.aio.AioRpcError as error:
            log.warning("controller lost", extra=about(reason=explained(error.details())))
        finally:
            self.up.clear()
            self._table.link_lost()
            outbox.close()
            call.cancel()
        return heard
