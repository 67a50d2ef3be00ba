"""The clients of a gateway: a file with a table for each, made by `esg tokens`.

    [alice]
    sha256 = "5b11618c2e44027877d0cd0921ed166b9f176f50587fc91e7534dd2946db77d6"
    requests_per_s = 50
    in_flight = 200

A token itself is nowhere: who has the file cannot pretend to be anyone. It is random and long, so
that its digest needs no salt and guessing is hopeless. Limits that are left out are none. An
`operator` sees and may change everything; all others see what is their own, and the catalog.
"""

import hmac
import re
import secrets
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path

from esg.core.catalog.toml_fields import TomlFields
from esg.errors import Rejected
from esg.files import written
from esg.names import CLIENT

DIGEST = re.compile(r"[0-9a-f]{64}")
BEGINNING = "esg_"
"""So that whoever finds a token lying around knows what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one client may do; 0 is any number."""

    requests_per_s: float = 0.0
    burst: int = 100
    in_flight: int = 0
    bytes_per_day: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """One client."""

    name: str
    digest: str = field(repr=False)
    operator: bool = False
    quota: Quota = Quota()


Entries = dict[str, TokenEntry]


def new_token() -> str:
    return BEGINNING + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def whose(token: str, entries: Iterable[TokenEntry]) -> TokenEntry | None:
    """Whom a token belongs to. How long that takes says nothing: all are compared, each in full."""
    digest = digest_of(token)
    found = None
    for entry in entries:
        if hmac.compare_digest(entry.digest, digest):
            found = entry
    return found


def read_entries(file: Path) -> Entries:
    """All clients, by name."""
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise Rejected(
            f"{file}: cannot be read: {error.strerror}; make it with esg tokens add"
        ) from None
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{file}: not TOML: {error}") from None
    top = TomlFields(str(file), "", tables)
    return {name: _entry(name, top.table(name)) for name in tables}


def _entry(name: str, table: TomlFields) -> TokenEntry:
    check_client_name(name)
    digest = table.text("sha256")
    if not DIGEST.fullmatch(digest):
        raise table.error("sha256", "must be 64 digits of 0-9 and a-f; use esg tokens add")
    quota = Quota(
        requests_per_s=table.number("requests_per_s", minimum=0, default=0.0),
        burst=table.integer("burst", minimum=1, default=Quota().burst),
        in_flight=table.integer("in_flight", minimum=0, default=0),
        bytes_per_day=table.integer("bytes_per_day", minimum=0, maximum=10**18, default=0),
    )
    operator = table.flag("operator") if table.has("operator") else False
    table.finish()
    return TokenEntry(name=name, digest=digest, operator=operator, quota=quota)


def write_entries(file: Path, entries: Entries) -> None:
    """For their owner alone, and all at once."""
    with written(file, private=True) as out:
        out.write("# The gateway's clients. Made by esg tokens, which see.\n")
        for entry in entries.values():
            out.write(f"\n[{entry.name}]\n")
            for key, value in _document(entry).items():
                out.write(f"{key} = {value}\n")


def _document(entry: TokenEntry) -> dict[str, str]:
    document = {"sha256": f'"{entry.digest}"'}
    if entry.operator:
        document["operator"] = "true"
    for known in fields(Quota):
        value = getattr(entry.quota, known.name)
        if value != known.default:
            document[known.name] = str(value)
    return document


def check_client_name(name: str) -> None:
    if not CLIENT.fullmatch(name):
        raise Rejected(
            f"client {name[:80]!r}: a name is up to 32 of a-z, 0-9 and -, the first no dash; "
            "choose another one"
        )
