"""The gateways of a mesh as a client knows them: one that calls go to, and others in its place.

Any gateway will do for any request: what one has accepted, another one answers under the same id.
So a client uses the first that it was given for as long as that answers, then the next, and so on,
and after the last one the first again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from esg.client.credentials import Credentials, authorized
from esg.errors import Rejected
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.addresses import split_addresses
from esg.runtime.rpc.channels import channel
from esg.runtime.security.plain import FOR_CLIENTS
from esg.runtime.security.tls import Security


@dataclass(frozen=True, slots=True, eq=False)
class Gateway:
    address: str
    channel: grpc.aio.Channel
    stub: public_grpc.PipelinesStub


class Gateways:
    """`addresses` are in the order in which they are used; each is connected to when it is."""

    def __init__(self, addresses: str | Sequence[str], shown: Credentials) -> None:
        listed = split_addresses(addresses) if isinstance(addresses, str) else list(addresses)
        if not listed:
            raise Rejected("no address of a gateway; give one, as in 127.0.0.1:50051")
        security = shown.security()
        self._all = [_gateway(address, security, shown) for address in dict.fromkeys(listed)]
        self._place = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def current(self) -> Gateway:
        return self._all[self._place]

    def failed(self, gateway: Gateway) -> None:
        """It was not available: the next one comes, unless another call has said so already."""
        if gateway is self.current:
            self._place = (self._place + 1) % len(self._all)

    async def close(self) -> None:
        for gateway in self._all:
            await gateway.channel.close()


def _gateway(address: str, security: Security, shown: Credentials) -> Gateway:
    link = channel(address, security, advice=FOR_CLIENTS)
    return Gateway(address, link, authorized(public_grpc.PipelinesStub(link), shown))
