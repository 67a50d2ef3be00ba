"""`esg tokens`: the clients of a gateway, with their tokens and quotas."""

import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.console.options import MOST_DAYS, AsJson, at_least, from_zero
from esg.console.terminal import open_table, print_json, terminal
from esg.errors import Rejected
from esg.runtime.security.tokens import (
    Quota,
    TokenEntry,
    Validity,
    check_client_name,
    digest_of,
    new_token,
    parse_time_s,
    read_entries,
    time_text,
    write_entries,
)
from esg.suggest import did_you_mean, shortened

app = typer.Typer(rich_markup_mode=None)

MOST = 10**9
ANY = "unlimited"
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
AGE = re.compile(r"([0-9]{1,9})([smhd])")

TokensFile = Annotated[
    Path,
    typer.Option(
        "--file",
        metavar="FILE",
        envvar="ESG_GATEWAY_TOKENS",
        help="The gateway's token file (its setting gateway.tokens).",
    ),
]
ClientName = Annotated[str, typer.Argument(metavar="NAME", help="The client's name.")]


@app.callback(invoke_without_command=True)
def tokens(context: typer.Context) -> None:
    """Manage the clients of a gateway: their tokens, quotas and expiry.

    The file holds digests of the tokens, not the tokens. A running gateway picks up changes at
    once.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


Expires = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN",
        show_default="never",
        help="When the token expires: after a time (90d, 12h, 30m), at a date, or never.",
    ),
]


@app.command()
def add(
    name: ClientName,
    file: TokensFile,
    requests_per_s: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            callback=from_zero(MOST),
            show_default=ANY,
            help="Requests per second; 0: unlimited.",
        ),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default=str(Quota().burst),
            help="Requests in a burst above that rate.",
        ),
    ] = None,
    in_flight: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(0),
            show_default=ANY,
            help="Requests in flight; 0: unlimited.",
        ),
    ] = None,
    bytes_per_day: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(0),
            show_default=ANY,
            help="Payload bytes per day; 0: unlimited.",
        ),
    ] = None,
    operator: Annotated[
        bool | None,
        typer.Option(
            "--operator/--no-operator",
            show_default="no",
            help="Whether it may see and change what belongs to others.",
        ),
    ] = None,
    expires: Expires = None,
    replace_old: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the token of an existing client; the rest stays as it is."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add a client and print its token (shown once).

    \b
    Examples:
      esg tokens add alice --file tokens.toml --expires 90d
      esg tokens add batch --file tokens.toml --requests-per-s 50 --in-flight 200
      ESG_TOKEN=$(esg tokens add me --file tokens.toml --replace) esg top
    """
    check_client_name(name)
    known = read_entries(file) if file.exists() else {}
    if name in known and not replace_old:
        raise Rejected(
            f"client {name} has a token; --replace gives it a new one, and esg tokens rotate one "
            "beside it"
        )
    token = new_token()
    before = known.get(name) or TokenEntry(name=name, digest="")
    limits = {
        "requests_per_s": requests_per_s,
        "burst": burst,
        "in_flight": in_flight,
        "bytes_per_day": bytes_per_day,
    }
    given: dict[str, Any] = {n: value for n, value in limits.items() if value is not None}
    entry = replace(
        before,
        digest=digest_of(token),
        expires_s=_expiry(before, expires),
        former=None,
        operator=before.operator if operator is None else operator,
        quota=replace(before.quota, **given),
    )
    write_entries(file, {**known, name: entry})
    _tell(entry, token, as_json=as_json)


@app.command()
def rotate(
    name: ClientName,
    file: TokensFile,
    keep_old: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long the old token stays valid: 1h, 30m, 2d, 0s."),
    ] = "1h",
    expires: Expires = None,
    as_json: AsJson = False,
) -> None:
    """Print a new token; the old one stays valid for a while.

    Everything else stays as it is. The new token is shown once.

    \b
    Examples:
      esg tokens rotate alice --file tokens.toml
      esg tokens rotate alice --file tokens.toml --keep-old 2d --expires 90d
    """
    known = read_entries(file)
    if name not in known:
        raise Rejected(did_you_mean("client", name, known))
    before = known[name]
    until_s = _after(keep_old, "--keep-old")
    if before.expires_s is not None:
        until_s = min(until_s, before.expires_s)
    token = new_token()
    entry = replace(
        before,
        digest=digest_of(token),
        expires_s=_expiry(before, expires),
        former=Validity(before.digest, until_s),
    )
    write_entries(file, {**known, name: entry})
    _tell(entry, token, as_json=as_json)


@app.command()
def remove(name: ClientName, file: TokensFile) -> None:
    """Revoke a client's token. Requests in flight are still answered."""
    known = read_entries(file)
    if name not in known:
        raise Rejected(did_you_mean("client", name, known))
    write_entries(file, {n: entry for n, entry in known.items() if n != name})


@app.command("list")
def list_clients(file: TokensFile, as_json: AsJson = False) -> None:
    """List clients, with their quotas and expiry."""
    entries = list(read_entries(file).values())
    if as_json:
        print_json({"clients": [_document(entry) for entry in entries]})
        return
    table = open_table()
    table.add_column("client")
    for heading in ("requests/s", "burst", "in flight", "bytes/day"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("expires", min_width=16)
    table.add_column("operator")
    for entry in entries:
        quota = entry.quota
        figures = (quota.requests_per_s, quota.burst, quota.in_flight, quota.bytes_per_day)
        shown = (f"{figure:,}".removesuffix(".0") if figure else "any" for figure in figures)
        until = _when(entry.current)
        if entry.former is not None:
            until += f"\n(the former: {_when(entry.former)})"
        table.add_row(entry.name, *shown, until, "yes" if entry.operator else "")
    terminal().print(table)


def _when(token: Validity) -> str:
    """When a token ends, in UTC and few words."""
    if token.expires_s is None:
        return "never"
    if token.has_expired(time.time()):
        return "expired"
    day, _, rest = time_text(token.expires_s).partition("T")
    return f"{day} {rest[:5]}"


def _expiry(before: TokenEntry, wanted: str | None) -> int | None:
    """When a new token expires: as somebody says, or else when the one before would have."""
    if wanted is None:
        if before.current.has_expired(time.time()):
            raise Rejected(
                f"the token of {before.name} has expired; say how long the new one is good, with "
                "--expires (90d, or never)"
            )
        return before.expires_s
    if wanted == "never":
        return None
    if AGE.fullmatch(wanted):
        return _after(wanted, "--expires")
    try:
        found_s = parse_time_s(wanted)
    except ValueError:
        raise Rejected(
            f"--expires is {shortened(wanted)!r}; it must be a time from now (90d, 12h, 30m), a "
            "date (2027-02-16), or never"
        ) from None
    if found_s <= time.time():
        raise Rejected(f"--expires is {wanted}, which is over; name a later time")
    return found_s


def _after(text: str, option: str) -> int:
    """So long from now."""
    found = AGE.fullmatch(text)
    if found is None or int(found[1]) * UNITS_S[found[2]] > MOST_DAYS * UNITS_S["d"]:
        raise Rejected(
            f"{option} is {shortened(text)!r}; it must be a number of days, hours, minutes or "
            "seconds, as in 90d, 12h, 30m, 10s"
        )
    return int(time.time()) + int(found[1]) * UNITS_S[found[2]]


def _tell(entry: TokenEntry, token: str, *, as_json: bool) -> None:
    if as_json:
        print_json({**_document(entry), "token": token})
    else:
        print(token)


def _document(entry: TokenEntry) -> dict[str, Any]:
    """A client without its digests. A limit of 0 is none, as in the options."""
    times = {"expires": entry.expires_s, "former_until": None}
    if entry.former is not None:
        times["former_until"] = entry.former.expires_s
    told = {key: None if at_s is None else time_text(at_s) for key, at_s in times.items()}
    return {"client": entry.name, "operator": entry.operator, **told, **asdict(entry.quota)}
