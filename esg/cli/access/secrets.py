"""`esg secrets`: what a mesh in containers keeps to itself."""

from pathlib import Path
from typing import Annotated

import typer

from esg.console.options import MOST_DAYS, AsJson, at_least
from esg.console.terminal import print_json
from esg.local.secure import SecureFolder
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.runtime.security.authority import make_certificates

AUTHORITY_KEY = "ca.key"


def secrets(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where they go; docker-compose.yml looks here.")
    ] = Path("secrets"),
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="containers on this host, and its loopback",
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
    """Create the certificates and tokens of a mesh in containers.

    There is a certificate for each service, for clients and for Prometheus, and a token for you,
    client.token. client.env has the variables for calling a mesh on this host, and with --host
    remote.env those for calling it by that name, as in a cluster. Only you can enter the
    directory; each container is given the files that it needs. Run again in the same directory, it
    keeps the CA and the tokens and renews the certificates; docker compose restart loads them.

    \b
    Examples:
      esg secrets
      esg secrets --host mesh.example.com --host 10.0.0.7
      esg tokens add alice --file secrets/tokens.toml
      docker compose restart gateway
    """
    new = make_certificates(directory, hosts=host or (), days=days)
    folder = SecureFolder(directory.absolute())
    folder.let_me_in()
    folder.say_how_to_call(DEFAULT_GATEWAY)
    name = next((one for one in host or () if not one.startswith("*")), None)
    folder.say_how_others_call(name)
    _let_containers_read(directory)
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
    print(f"to call a mesh in containers on this host: source {folder.client_env}")
    if name is not None:
        print(f"to call it at {name}, here or in a cluster: source {folder.remote_env}")
        print(
            f"others need ca.pem, and a token: esg tokens add NAME --file {directory}/tokens.toml"
        )


def _let_containers_read(directory: Path) -> None:
    """Make files readable for containers: a file that is mounted into a container keeps its
    permissions, and the container's user is another one. So everyone may read the files, in a
    directory that nobody else can enter: the engine can, and hands each container its own. The
    authority's key is for no container."""
    directory.chmod(0o700)
    for file in directory.iterdir():
        file.chmod(0o600 if file.name == AUTHORITY_KEY else 0o644)
