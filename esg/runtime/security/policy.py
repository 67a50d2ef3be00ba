"""Security of a service as its settings say: with TLS to whom, or without."""

from pathlib import Path

from esg.errors import Rejected
from esg.runtime.rpc.addresses import service_name
from esg.runtime.security.tls import ClientTls, Identity, Security, ServerTls
from esg.runtime.settings import CommonSettings, GatewaySettings


def between_services(common: CommonSettings, called: str = "controller") -> Security:
    """Both sides show a certificate, both trust the same authorities, and who calls makes sure that
    it is this service which answers."""
    identity = _identity(common.tls_certificate, common.tls_key, "")
    if (identity is None) != (not common.tls_ca):
        raise Rejected(
            "tls_ca, tls_certificate and tls_key belong together; set all three, or none of them"
        )
    if identity is None:
        return Security(insecure=common.insecure)
    trusted = [Path(common.tls_ca)]
    client = ClientTls(trusted, identity, service_name(called, common.tls_domain))
    return Security(ServerTls(identity, trusted), client, common.insecure)


def public_door(common: CommonSettings, own: GatewaySettings) -> Security:
    """For clients of a gateway: its own certificate, or else the one it shows to the mesh.

    Clients need a certificate if somebody said whose. The mesh's own authorities are good too, so
    that a supervisor can look in.
    """
    identity = _identity(own.tls_certificate, own.tls_key, "gateway.") or _identity(
        common.tls_certificate, common.tls_key, ""
    )
    if identity is None:
        if own.tls_client_ca:
            raise Rejected(
                "gateway.tls_client_ca asks for certificates of clients, and the gateway has none "
                "itself; set gateway.tls_certificate and gateway.tls_key"
            )
        return Security(insecure=common.insecure)
    named = [own.tls_client_ca, common.tls_ca] if own.tls_client_ca else []
    clients = [Path(file) for file in named if file]
    return Security(ServerTls(identity, clients), insecure=common.insecure)


def _identity(certificate: str, key: str, section: str) -> Identity | None:
    if bool(certificate) != bool(key):
        raise Rejected(
            f"{section}tls_certificate and {section}tls_key belong together; set both, or neither"
        )
    return Identity(Path(certificate), Path(key)) if certificate else None
