"""`esg certificates`: what services need to speak TLS with each other."""

from pathlib import Path
from typing import Annotated

import typer

from esg.console.options import MOST_DAYS, AsJson, at_least
from esg.console.terminal import print_json
from esg.runtime.security.authority import CALLERS, SERVICES, make_certificates


def certificates(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the certificates and keys go.")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="this machine's loopback only",
            help="A name or address under which clients call the gateway; can be repeated.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            metavar="N", callback=at_least(1, at_most=MOST_DAYS), help="How long they are valid."
        ),
    ] = 90,
    as_json: AsJson = False,
) -> None:
    """Create a private certificate authority (CA), and certificates for services and clients.

    One more, observer, is for Prometheus. If the directory has a CA already, it is kept and only
    the certificates are renewed; running services pick them up without a restart. Keep ca.key
    secret; each service needs ca.pem and its own two files. docs/security.md says what to set.

    \b
    Examples:
      esg certificates ./tls
      esg certificates ./tls --host mesh.example.com --host 10.0.0.7 --days 30
    """
    new = make_certificates(directory, hosts=host or (), days=days)
    if as_json:
        made = [*SERVICES, *CALLERS]
        print_json({"directory": str(directory), "new_authority": new, "certificates": made})
        return
    print(f"{directory}: {'a new authority' if new else 'the authority is kept'}, new certificates")
    for service in (*SERVICES, *CALLERS):
        print(f"  {service:10} {service}.pem {service}.key")
    print(f"each trusts {directory / 'ca.pem'}; whoever has ca.key can make more")
