"""`esg reload`: new code for one function of a live mesh."""

from typing import Annotated

import typer

from esg.cli.requests.connection import run_live, say_error
from esg.client import AsyncClient
from esg.console.options import AsJson, Gateway
from esg.console.terminal import print_json
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY


def reload(
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="Its name in the catalog.")],
    gateway: Gateway = DEFAULT_GATEWAY,
    as_json: AsJson = False,
) -> None:
    """Reload the handler and the model of a function on all nodes of a live mesh.

    Edit them, then reload: no request is lost. Tasks that run end with the old code, later ones run
    with what is on the nodes' disks now. Where that cannot be loaded, the old code stays, and the
    command says why and ends with 1. What the catalog says of a function is not read again. Where a
    gateway asks for tokens, this is for operators.

    \b
    Examples:
      esg reload edges
    """
    failures = run_live(_reload(gateway, function))
    if as_json:
        told = [{"node": node, "failure": why or None} for node, why in failures.items()]
        print_json({"function": function, "nodes": told})
    elif not failures:
        print("no node is attached to the mesh; those that come will have the new code")
    for node, why in failures.items():
        if why:
            say_error(f"{node}: not reloaded: {' '.join(why.split())}")
        elif not as_json:
            print(f"{node}: {function} reloaded")
    if any(failures.values()):
        raise typer.Exit(1)


async def _reload(gateway: str, function: str) -> dict[str, str]:
    async with AsyncClient(gateway, patience_s=2.0) as mesh:
        return await mesh.reload_function(function)
