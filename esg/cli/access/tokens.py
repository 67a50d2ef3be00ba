"""`esg tokens`: who may call a gateway, and how much."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.console.options import AsJson, at_least, from_zero
from esg.console.terminal import open_table, print_json, terminal
from esg.errors import Rejected
from esg.runtime.security.tokens import (
    Quota,
    TokenEntry,
    check_client_name,
    digest_of,
    new_token,
    read_entries,
    write_entries,
)
from esg.suggest import did_you_mean

app = typer.Typer(rich_markup_mode=None)

MOST = 10**9

TokensFile = Annotated[
    Path,
    typer.Option(
        "--file",
        metavar="FILE",
        envvar="ESG_GATEWAY_TOKENS",
        help="The gateway's file of tokens (its setting tokens).",
    ),
]
ClientName = Annotated[str, typer.Argument(metavar="NAME", help="Of the client.")]


@app.callback(invoke_without_command=True)
def tokens(context: typer.Context) -> None:
    """Say who may call a gateway, and how much.

    The file holds digests of the tokens, not the tokens. A running gateway takes changes up at
    once.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def add(
    name: ClientName,
    file: TokensFile,
    requests_per_s: Annotated[
        float,
        typer.Option(
            metavar="N", callback=from_zero(MOST), help="Requests per second; 0: any number."
        ),
    ] = 0.0,
    burst: Annotated[
        int,
        typer.Option(metavar="N", callback=at_least(1), help="Requests at once beyond that rate."),
    ] = Quota().burst,
    in_flight: Annotated[
        int,
        typer.Option(
            metavar="N", callback=at_least(0), help="Requests under way at a time; 0: any number."
        ),
    ] = 0,
    bytes_per_day: Annotated[
        int,
        typer.Option(
            metavar="N", callback=at_least(0), help="Bytes of payloads in a day; 0: any number."
        ),
    ] = 0,
    operator: Annotated[
        bool, typer.Option("--operator", help="May see and change what belongs to others.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Give a client that is there a new token.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let a client in: prints its token, this once.

    \b
    Examples:
      esg tokens add alice --file tokens.toml
      esg tokens add batch --file tokens.toml --requests-per-s 50 --in-flight 200
      ESG_TOKEN=$(esg tokens add me --file tokens.toml --replace) esg apps
    """
    check_client_name(name)
    known = read_entries(file) if file.exists() else {}
    if name in known and not replace:
        raise Rejected(f"client {name} has a token; --replace gives it a new one")
    token = new_token()
    quota = Quota(
        requests_per_s=requests_per_s,
        burst=burst,
        in_flight=in_flight,
        bytes_per_day=bytes_per_day,
    )
    entry = TokenEntry(name=name, digest=digest_of(token), operator=operator, quota=quota)
    write_entries(file, {**known, name: entry})
    if as_json:
        print_json({**_document(entry), "token": token})
    else:
        print(token)


@app.command()
def remove(name: ClientName, file: TokensFile) -> None:
    """Let a client in no more. What it has under way is answered."""
    known = read_entries(file)
    if name not in known:
        raise Rejected(did_you_mean("client", name, known))
    write_entries(file, {n: entry for n, entry in known.items() if n != name})


@app.command("list")
def list_clients(file: TokensFile, as_json: AsJson = False) -> None:
    """Show who may call, and how much."""
    entries = list(read_entries(file).values())
    if as_json:
        print_json({"clients": [_document(entry) for entry in entries]})
        return
    table = open_table()
    table.add_column("client")
    for heading in ("requests/s", "burst", "in flight", "bytes/day"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("operator")
    for entry in entries:
        quota = entry.quota
        figures = (quota.requests_per_s, quota.burst, quota.in_flight, quota.bytes_per_day)
        shown = (f"{figure:,}".removesuffix(".0") if figure else "any" for figure in figures)
        table.add_row(entry.name, *shown, "yes" if entry.operator else "")
    terminal().print(table)


def _document(entry: TokenEntry) -> dict[str, Any]:
    """A client without its digest. A limit of 0 is none, as in the options."""
    return {"client": entry.name, "operator": entry.operator, **asdict(entry.quota)}
