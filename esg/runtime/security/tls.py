"""TLS between processes: who one is, whom one trusts, from PEM files that may be replaced.

A server looks at its files before every handshake, so a new certificate is shown to whoever
connects next. A connection that is there stays: certificates are checked when it is made. A channel
keeps the certificates it was made with for all its connections, so `channels.channel` makes a new
one when `ClientTls.credentials` gives others than before.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from esg.errors import Rejected
from esg.runtime.rpc.status import Forbidden
from esg.runtime.security.files import Reloaded, content

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate (with those that signed it, if there are any between) and its key."""

    certificate: Path
    key: Path

    def pair(self) -> tuple[bytes, bytes]:
        """Key and certificate, as gRPC wants them; refused if they do not belong together."""
        key = content(self.key, "tls_key")
        certificate = content(self.certificate, "tls_certificate")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self.certificate, self.key, password=self._refuse_password
            )
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise Rejected(
                f"tls_certificate {self.certificate} and tls_key {self.key}: no certificate and "
                f"its key in PEM ({reason}); correct the files or the settings"
            ) from None
        return key, certificate

    def _refuse_password(self) -> bytes:
        raise Rejected(f"tls_key {self.key}: is encrypted; name a key without a password")


def authorities(files: Sequence[Path]) -> bytes:
    """The certificates of all these authorities."""
    joined = b"\n".join(content(file, "tls_ca") for file in files)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
            cadata=joined.decode("ascii", "ignore")  # there may be words between certificates
        )
    except (ssl.SSLError, ValueError) as error:
        names = ", ".join(map(str, files))
        raise Rejected(f"tls_ca {names}: no certificates in PEM ({error}); correct it") from None
    return joined


class ServerTls:
    """What a server shows, and the authorities whose clients it lets in; without any, all."""

    def __init__(self, identity: Identity, clients: Sequence[Path] = ()) -> None:
        self._identity = identity
        self._clients = clients
        files = [identity.certificate, identity.key, *clients]
        self._files = Reloaded(files, self._read)

    def credentials(self) -> grpc.ServerCredentials:
        given = self._files.get()

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            """Asked by gRPC before each handshake, in a thread of its own; None: no change."""
            nonlocal given
            before, given = given, self._files.get()
            return None if given is before else given

        return grpc.dynamic_ssl_server_credentials(
            given,
            renewed,  # type: ignore[arg-type] # its stub does not know that it may be None
            require_client_authentication=bool(self._clients),
        )

    def _read(self) -> grpc.ServerCertificateConfiguration:
        trusted = authorities(self._clients) if self._clients else None
        return grpc.ssl_server_certificate_configuration([self._identity.pair()], trusted)


class ClientTls:
    """Whom a client trusts, and what it shows to a server that asks.

    `server_name` is what the server's certificate is made out to, if that is not its host. It is
    how a client knows whom it calls: all services of a mesh are of the same authority.
    """

    def __init__(
        self, trusted: Sequence[Path], identity: Identity | None = None, server_name: str = ""
    ) -> None:
        self._trusted = trusted
        self._identity = identity
        self.server_name = server_name
        own = [] if identity is None else [identity.certificate, identity.key]
        self._files = Reloaded([*trusted, *own], self._read)

    def credentials(self) -> grpc.ChannelCredentials:
        """The credentials; the same object until the files change."""
        return self._files.get()

    def _read(self) -> grpc.ChannelCredentials:
        key, certificate = (None, None) if self._identity is None else self._identity.pair()
        return grpc.ssl_channel_credentials(authorities(self._trusted), key, certificate)


@dataclass(frozen=True, slots=True)
class Security:
    """How a process speaks with others, with TLS or without.

    `server` is for whoever calls this process, `client` for whom it calls; None: no TLS. `insecure`
    allows plain text where others could read it.
    """

    server: ServerTls | None = None
    client: ClientTls | None = None
    insecure: bool = False


OTHER_NAME = "Hostname Verification"
"""What gRPC says of a certificate that is made out to something else."""
RENEW = (
    "make new certificates with esg certificates, or set tls_domain if yours are made out to other "
    "names than controller.esg and its like"
)


def explained(details: str | None) -> str:
    """gRPC's words about a connection between services, and what to do."""
    said = details or ""
    return f"{said}; {RENEW}" if OTHER_NAME in said else said


ON_THIS_MACHINE = Security()
"""Plain text, and only on the loopback."""


def check_peer(context: Context, service: str) -> None:
    """Refuse a peer whose certificate has not this service of the mesh as its common name.

    Every service has a certificate of the same authority. What a worker node has must not be
    enough to be a gateway, which speaks for all clients. Without TLS nobody is told apart.
    """
    identity = context.auth_context()
    if identity.get("transport_security_type") != [b"ssl"]:
        return
    names = [name.decode("utf-8", "replace") for name in identity.get("x509_common_name", ())]
    if service not in names:
        raise Forbidden(
            f"only the service {service} may call this, and the common name of the caller's "
            f"certificate is {', '.join(names) or 'empty'}; give it a certificate of that service"
        )
