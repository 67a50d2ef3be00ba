"""`esg secrets`: what a mesh in a cluster keeps to itself."""

from pathlib import Path
from typing import Annotated

import typer

from esg.console.options import MOST_DAYS, AsJson, at_least
from esg.console.terminal import print_json
from esg.local.secure import SecureFolder
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.runtime.security.authority import make_certificates


def secrets(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Where they go; deploy/kubernetes/base/secrets for a cluster."
        ),
    ] = Path("secrets"),
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="the services among themselves, and the loopback",
            help="A name or address under which others call this host; can be repeated.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_DAYS),
            help="How long certificates are valid.",
        ),
    ] = 90,
    as_json: AsJson = False,
) -> None:
    """Create the certificates and tokens of a mesh in a cluster.

    There is a certificate for each service, for clients and for Prometheus, and a token for you,
    client.token. client.env has the variables for calling a mesh on this host, and with --host
    remote.env those for calling it by that name. Only you can enter the directory. Run again in
    the same directory, it keeps the CA and the tokens and renews the certificates. With docker
    compose nobody has to run this: the mesh makes its own.

    \b
    Examples:
      esg secrets --host mesh.example.com --host 10.0.0.7
      esg tokens add alice --file secrets/tokens.toml
    """
    new = make_certificates(directory, hosts=host or (), days=days)
    folder = SecureFolder(directory.absolute())
    folder.let_me_in()
    directory.chmod(0o700)  # if it was there before
    folder.say_how_to_call(DEFAULT_GATEWAY)
    name = next((one for one in host or () if not one.startswith("*")), None)
    folder.say_how_others_call(name)
    if as_json:
        print_json(
            {
                "directory": str(folder.path),
                "new_authority": new,
                "client_env": str(folder.client_env),
                "remote_env": str(folder.remote_env) if name else None,
            }
        )
        return
    print(f"{directory}: {'new CA' if new else 'the CA is kept'}, new certificates")
    print(f"to call a mesh on this host: source {folder.client_env}")
    if name is not None:
        print(f"to call it at {name}: source {folder.remote_env}")
        print(
            f"others need ca.pem, and a token: esg tokens add NAME --file {directory}/tokens.toml"
        )
