"""How a client shows who it is, and knows the gateway: a token, and TLS.

What a program does not say itself is as the environment says, so that every tool of the mesh
understands the same few variables:

    ESG_GATEWAY                              its address, as host:port; several with commas
    ESG_TOKEN                                the token, as `esg tokens add` printed it
    ESG_CLIENT_CA                            whom to trust; with it, TLS is spoken
    ESG_CLIENT_CERTIFICATE, ESG_CLIENT_KEY   what to show to a gateway that asks for a certificate
    ESG_CLIENT_SERVER_NAME                   what the gateway's certificate is made out to, if not
                                             to the host in its address
    ESG_INSECURE                             true: without TLS even to another machine
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from esg.errors import Rejected
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.security.tls import ClientTls, Identity, Security

GATEWAY = "ESG_GATEWAY"
TOKEN, CA = "ESG_TOKEN", "ESG_CLIENT_CA"
CERTIFICATE, KEY = "ESG_CLIENT_CERTIFICATE", "ESG_CLIENT_KEY"
SERVER_NAME = "ESG_CLIENT_SERVER_NAME"
INSECURE = "ESG_INSECURE"

_SENDABLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A client's token, and its files for TLS.

    The files are read when the client is made, and again by a long-lived one when they change.
    """

    token: str = ""
    """As `esg tokens add` printed it; empty: none is shown."""
    ca: str | Path = ""
    """PEM file of the certificate authorities to trust; empty: TLS is not spoken."""
    certificate: str | Path = ""
    """PEM file to show to a gateway that asks for a certificate; goes with `key`."""
    key: str | Path = ""
    """PEM file of the certificate's private key."""
    server_name: str = ""
    """What the gateway's certificate must be made out to; empty: the host in the address."""
    insecure: bool = False
    """Call even another machine without TLS: everyone on the way can read and change all."""

    @staticmethod
    def from_environment(environ: Mapping[str, str] = os.environ) -> "Credentials":
        """As the variables ESG_TOKEN, ESG_CLIENT_CA, ESG_CLIENT_CERTIFICATE, ESG_CLIENT_KEY and
        ESG_INSECURE say."""
        return Credentials(
            token=environ.get(TOKEN, ""),
            ca=environ.get(CA, ""),
            certificate=environ.get(CERTIFICATE, ""),
            key=environ.get(KEY, ""),
            server_name=environ.get(SERVER_NAME, ""),
            insecure=environ.get(INSECURE, "").lower() in ("true", "1"),
        )

    def security(self) -> Security:
        """What a channel is made with; refused if files are missing or wrong."""
        if bool(self.certificate) != bool(self.key):
            raise Rejected(f"a certificate needs its key: give both ({CERTIFICATE}, {KEY})")
        if not self.ca:
            if self.certificate:
                raise Rejected(f"a certificate is of use with TLS only; say whom to trust ({CA})")
            return Security(insecure=self.insecure)
        identity = Identity(Path(self.certificate), Path(self.key)) if self.key else None
        client = ClientTls([Path(self.ca)], identity, self.server_name)
        return Security(client=client, insecure=self.insecure)

    def metadata(self) -> Sequence[tuple[str, str]]:
        """What goes with every call. The token itself is never part of a message."""
        if not self.token:
            return ()
        if not _SENDABLE.fullmatch(self.token):
            raise Rejected(f"the token has spaces or strange characters; correct {TOKEN}")
        return (("authorization", f"Bearer {self.token}"),)

    def __repr__(self) -> str:
        """Without the token: what is printed or logged stays."""
        return f"Credentials(token={'***' if self.token else ''!r}, ca={str(self.ca)!r})"


def authorized(stub: public_grpc.PipelinesStub, shown: Credentials) -> public_grpc.PipelinesStub:
    """A stub whose every call shows the token."""
    metadata = shown.metadata()
    if metadata:
        for name, method in vars(stub).items():
            setattr(stub, name, partial(method, metadata=metadata))
    return stub
