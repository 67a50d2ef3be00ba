"""An authority of one's own, for development and for meshes that nobody else has to trust.

    DIRECTORY/ca.pem ca.key                  the authority: its certificate is for all, its key for
                                             whoever makes certificates
    DIRECTORY/controller.pem controller.key  ... gateway, invoker, redis: one for each service
    DIRECTORY/client.pem client.key          one for clients, where a gateway asks for it
    DIRECTORY/observer.pem observer.key      one for Prometheus, see `metrics_page`

Made again in the same directory, the authority stays and the certificates are new, for the same
hosts unless others are named: running processes take them up. The common name is the service, which
the controller looks at (see `tls.check_peer`). Who calls a service looks at the other names, one of
which says what it is wherever it runs, such as `controller.esg`. Hosts are in the gateway's alone,
for clients that go by the host, as usual; in others they would make an invoker, which may run on
the same host, as good as the gateway.
"""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from esg.errors import Rejected
from esg.files import written
from esg.runtime.rpc.addresses import service_name

SERVICES = ("controller", "gateway", "invoker", "redis")
PUBLIC = "gateway"
"""The one that outsiders call, by the name of its host."""
CALLERS = ("client", "observer")
"""Those whom nobody calls."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
AUTHORITY_DAYS = 3650
LONGEST_COMMON_NAME = 64
"""In letters: what a certificate has room for."""


def make_certificates(
    directory: Path, *, hosts: Sequence[str], days: int, keep: bool = False
) -> bool:
    """All of the above; whether the authority is a new one. With `keep`, certificates stay that are
    not yet in the last third of their time."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = _authority(directory)
        authority = known or _new_authority(directory)
        hosts = hosts or _hosts_in(directory / f"{PUBLIC}.pem")
        for name in (*SERVICES, *CALLERS):
            names = _names_of(name, hosts)
            if not (keep and _is_good(directory / name, names, authority)):
                _make(directory, name, names, days, authority)
    except OSError as error:
        raise Rejected(
            f"{error.filename or directory}: {error.strerror}; name a directory that you can "
            "write to"
        ) from None
    return known is None


def _names_of(name: str, hosts: Sequence[str]) -> tuple[str, ...]:
    if name == PUBLIC:
        return (service_name(name), name, *LOOPBACK, *hosts)
    return (service_name(name), name) if name in SERVICES else (name,)


class _Authority(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def _authority(directory: Path) -> _Authority | None:
    """The one that is there."""
    certificate, key = directory / "ca.pem", directory / "ca.key"
    if not certificate.exists() and not key.exists():
        return None
    try:
        made = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise Rejected(
            f"{directory}: ca.pem and ca.key are no authority: {error}; name another directory"
        ) from None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or (
        made.public_key() != private.public_key()
    ):
        raise Rejected(
            f"{directory}: ca.pem and ca.key were not made by esg certificates; name another "
            "directory"
        )
    return _Authority(made, private)


def _new_authority(directory: Path) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own, so that two authorities can be trusted at the same time
    title = f"ESG development authority {secrets.token_hex(4)}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    certificate = (
        _begun(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(directory / "ca", key, certificate)
    return _Authority(certificate, key)


def _make(
    directory: Path, service: str, names: Sequence[str], days: int, authority: _Authority
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, service)])
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if service in SERVICES:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = authority.certificate
    certificate = (
        _begun(subject, issuer.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    _write(directory / service, key, certificate)


def _is_good(beginning: Path, names: Sequence[str], authority: _Authority) -> bool:
    """Whether certificate and key fit each other, this authority and these names, for a while."""
    try:
        made = x509.load_pem_x509_certificate(beginning.with_suffix(".pem").read_bytes())
        key = serialization.load_pem_private_key(
            beginning.with_suffix(".key").read_bytes(), password=None
        )
        made.verify_directly_issued_by(authority.certificate)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    begin, end = made.not_valid_before_utc, made.not_valid_after_utc
    return (
        made.public_key() == key.public_key()
        and sorted(names_in(beginning.with_suffix(".pem"))) == sorted(set(names))
        and end - datetime.now(UTC) > (end - begin) / 3
    )


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    """A host's name or address, as certificates have it."""
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    try:
        if not 0 < len(name) <= LONGEST_COMMON_NAME:
            raise ValueError
        return x509.DNSName(name)
    except ValueError:
        raise Rejected(
            f"--host is {name[:80]!r}; it must be a host's name or address, in ASCII"
        ) from None


def _write(beginning: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    """Write key and certificate, each whole. A reader between the two finds a key that does not
    fit, and keeps what it had."""
    pem = serialization.Encoding.PEM
    form, unencrypted = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with written(beginning.with_suffix(".key"), private=True) as file:
        file.write(key.private_bytes(pem, form, unencrypted).decode("ascii"))
    with written(beginning.with_suffix(".pem")) as file:
        file.write(certificate.public_bytes(pem).decode("ascii"))


def names_in(certificate: Path) -> list[str]:
    """The hosts that a certificate is made out to: names, then addresses."""
    try:
        made = x509.load_pem_x509_certificate(certificate.read_bytes())
        extension = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (OSError, ValueError, x509.ExtensionNotFound):
        return []
    addresses = map(str, extension.value.get_values_for_type(x509.IPAddress))
    return [*extension.value.get_values_for_type(x509.DNSName), *addresses]


def _hosts_in(certificate: Path) -> list[str]:
    """Those that somebody named when it was made."""
    usual = (service_name(PUBLIC), PUBLIC, *LOOPBACK)
    return [name for name in names_in(certificate) if name not in usual]
