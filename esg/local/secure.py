"""What a mesh on one machine needs to be secure, and to be called by its user.

    DIRECTORY/security/ca.pem, gateway.pem, ...   see `esg.runtime.security.authority`; new
                                                  certificates whenever a mesh starts
    DIRECTORY/security/tokens.toml                the gateway's clients; `me` is one of them
    DIRECTORY/security/client.token               the token of `me`
    DIRECTORY/security/client.env                 for a shell that is to call this mesh
    DIRECTORY/security/remote.env                 the same for one that others call by name, if
                                                  `esg secrets` was told the name

All of it is for its user alone, and stays when the mesh ends.
"""

import shlex
import socket
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from esg.files import written
from esg.runtime.rpc.addresses import (
    EVERY_INTERFACE,
    GATEWAY_PORT,
    callable_address,
    service_name,
)
from esg.runtime.security.authority import make_certificates, names_in
from esg.runtime.security.plain import is_loopback
from esg.runtime.security.policy import between_services
from esg.runtime.security.tls import ClientTls, Identity, Security
from esg.runtime.security.tokens import (
    TokenEntry,
    digest_of,
    new_token,
    read_entries,
    write_entries,
)
from esg.runtime.settings import CommonSettings, GatewaySettings

ME = "me"
CLIENT = "client"
DAYS = 90


class SecureFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.client_env = path / "client.env"
        self.remote_env = path / "remote.env"
        self._tokens = path / "tokens.toml"
        self._token = path / "client.token"

    def identity(self, service: str) -> dict[str, Any]:
        """The settings that make a process this service."""
        return {
            "tls_ca": self.path / "ca.pem",
            "tls_certificate": self.path / f"{service}.pem",
            "tls_key": self.path / f"{service}.key",
        }

    def door(self) -> dict[str, Any]:
        """The gateway's settings: clients need a certificate and a token."""
        return {"tls_client_ca": self.path / "ca.pem", "tokens": self._tokens}

    def make(self, host: str) -> None:
        """All that is missing; `host` is where the gateway listens."""
        named = [] if host in EVERY_INTERFACE or is_loopback(host) else [host]
        make_certificates(self.path, hosts=[*named, socket.gethostname()], days=DAYS)
        self.let_me_in()

    def say_how_to_call(self, *gateways: str) -> None:
        self._write_variables(self.client_env, *gateways)

    def say_how_others_call(self, host: str | None) -> None:
        """The same for who calls the gateway by a name that others know; without one there is no
        such file, for no certificate has the name."""
        if host is None:
            self.remote_env.unlink(missing_ok=True)
        else:
            written_as = f"[{host}]" if ":" in host else host
            self._write_variables(self.remote_env, f"{written_as}:{GATEWAY_PORT}")

    def _write_variables(self, path: Path, *gateways: str) -> None:
        variables = {
            "ESG_GATEWAY": ",".join(callable_address(gateway) for gateway in gateways),
            "ESG_CLIENT_CA": self.path / "ca.pem",
            "ESG_CLIENT_CERTIFICATE": self.path / f"{CLIENT}.pem",
            "ESG_CLIENT_KEY": self.path / f"{CLIENT}.key",
            "ESG_CLIENT_SERVER_NAME": service_name("gateway"),
        }
        with written(path, private=True) as file:
            for name, value in variables.items():
                file.write(f"export {name}={shlex.quote(str(value))}\n")
            file.write(f'export ESG_TOKEN="$(cat {shlex.quote(str(self._token))})"\n')

    def let_me_in(self) -> None:
        let_in(self._tokens, self._token)


def let_in(tokens: Path, own: Path) -> None:
    """Have a gateway with these tokens know `me`: by the token that is there, if it is still good,
    or by a new one."""
    known = read_entries(tokens) if tokens.exists() else {}
    token = own.read_text("utf-8").strip() if own.exists() else ""
    if ME in known and known[ME].digest == digest_of(token):
        return
    token = new_token()
    with written(own, private=True) as file:
        file.write(f"{token}\n")
    me = TokenEntry(name=ME, digest=digest_of(token), operator=True)
    write_entries(tokens, {**known, ME: me})


def probing(service: str, settings: Mapping[str, Mapping[str, Any]]) -> Security:
    """How to ask a process of a mesh with these settings whether it is well: a service, or a node
    by its name.

    A gateway may show the public a certificate of an authority that nobody here knows; whoever
    started it knows the certificate itself.
    """
    common = _read(CommonSettings, settings["common"])
    own = _read(GatewaySettings, settings["gateway"])
    if service != "gateway" or not own.tls_certificate:
        called = service if service in ("controller", "gateway") else "invoker"
        return between_services(common, called)
    shown = Path(own.tls_certificate)
    identity = None
    if common.tls_certificate:
        identity = Identity(Path(common.tls_certificate), Path(common.tls_key))
    name = next(iter(names_in(shown)), "")
    return Security(client=ClientTls([shown], identity, name), insecure=common.insecure)


def _read(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Of a record that another version may have written, what this one knows."""
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})
