"""`esg rooms`: each container its own secrets. docker-compose.yml runs it at every start."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from esg.console.options import MOST_DAYS, at_least
from esg.errors import Rejected
from esg.local.rooms import ROOMS, Rooms

app = typer.Typer(rich_markup_mode=None)

PLACE = Path("/var/lib/esg-secrets")

Directory = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="Where the rooms are, a folder for each.")
]
Service = Annotated[str, typer.Argument(metavar="SERVICE", help=f"One of {', '.join(ROOMS)}.")]


@app.callback(invoke_without_command=True)
def rooms(context: typer.Context) -> None:
    """Fill the rooms in which the containers of a mesh find their secrets.

    A room is a volume with the certificate, the key and the token that one service needs. docker
    compose runs this in a container of its own, the only one that sees all of them.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def fill(
    hosts: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Names and addresses under which others call the gateway, with commas.",
        ),
    ] = "",
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SERVICE=GID",
            help="The group of a service that runs as another user; can be repeated.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_DAYS),
            help="How long certificates are valid.",
        ),
    ] = 365,
    directory: Directory = PLACE,
) -> None:
    """Make what is missing, and renew what soon ends.

    Certificates are renewed in the last third of their time; running services take them up. Rooms
    that were filled from another host are left alone.

    \b
    Example:
      MESH_HOSTS=mesh.example.com docker compose up
    """
    names = [name.strip() for name in hosts.split(",") if name.strip()]
    places = Rooms(directory, dict(_group(one) for one in group or ()))
    if places.fill(hosts=names, days=days):
        print(f"{directory}: every service has its secrets")
    else:
        print(f"{directory}: filled from another host, and left alone")


@app.command()
def give(service: Service, directory: Directory = PLACE) -> None:
    """Write a room to standard output, as a tar archive.

    It is for another host, or for a client elsewhere.

    \b
    Examples:
      docker compose run --rm -T secrets esg rooms give invoker > invoker.tar
      docker compose run --rm -T secrets esg rooms give client | tar x
    """
    Rooms(directory).give(service, sys.stdout.buffer)


@app.command()
def take(service: Service, directory: Directory = PLACE) -> None:
    """Fill a room with what another host gave.

    The archive that esg rooms give wrote there is read from standard input.

    \b
    Example:
      docker compose run --rm -T secrets esg rooms take invoker < invoker.tar
    """
    Rooms(directory).take(service, sys.stdin.buffer)


def _group(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (number.isascii() and number.isdigit()):
        raise Rejected(f"--group is {text!r}; it must be a service and a group, as in redis=999")
    return name, int(number)
