"""The clients of a gateway: a file with a table for each, made by `esg tokens`.

    [alice]
    sha256 = "5b11618c2e44027877d0cd0921ed166b9f176f50587fc91e7534dd2946db77d6"
    expires = "2027-02-16T08:00:00+00:00"
    requests_per_s = 50
    in_flight = 200

A token itself is nowhere: who has the file cannot pretend to be anyone. It is random and long, so
that its digest needs no salt and guessing is hopeless. Without `expires` it is good until it is
removed. While it is being changed there may be a former one that is good for some time yet
(`former_sha256`, `former_expires`). Limits that are left out are none. An `operator` sees and may
change everything; all others see what is their own, and the catalog.
"""

import hmac
import re
import secrets
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
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


@dataclass(frozen=True, slots=True)
class Validity:
    """A token, by its digest, and when it expires (Unix time, in seconds); None: never."""

    digest: str = field(repr=False)
    expires_s: int | None = None

    def has_expired(self, now_s: float) -> bool:
        return self.expires_s is not None and now_s >= self.expires_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """One client. `former` is the token that it had before, while that is still good."""

    name: str
    digest: str = field(repr=False)
    expires_s: int | None = None
    former: Validity | None = None
    operator: bool = False
    quota: Quota = Quota()

    @property
    def current(self) -> Validity:
        return Validity(self.digest, self.expires_s)

    def shown(self, digest: str) -> Validity | None:
        """Which of its tokens this is, if it is one. How long that takes says nothing."""
        found = None
        for token in (self.current, self.former):
            if token is not None and hmac.compare_digest(token.digest, digest):
                found = token
        return found


Entries = dict[str, TokenEntry]


def new_token() -> str:
    return BEGINNING + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def whose(token: str, entries: Iterable[TokenEntry]) -> TokenEntry | None:
    """Whom a token belongs to, expired or not. How long that takes says nothing: all are compared,
    each in full."""
    digest = digest_of(token)
    found = None
    for entry in entries:
        if entry.shown(digest) is not None:
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
    current = _validity(table, "sha256", "expires")
    former = None
    if table.has("former_sha256"):
        former = _validity(table, "former_sha256", "former_expires")
    quota = Quota(
        requests_per_s=table.number("requests_per_s", minimum=0, default=0.0),
        burst=table.integer("burst", minimum=1, default=Quota().burst),
        in_flight=table.integer("in_flight", minimum=0, default=0),
        bytes_per_day=table.integer("bytes_per_day", minimum=0, maximum=10**18, default=0),
    )
    operator = table.flag("operator") if table.has("operator") else False
    table.finish()
    return TokenEntry(
        name=name,
        digest=current.digest,
        expires_s=current.expires_s,
        former=former,
        operator=operator,
        quota=quota,
    )


def _validity(table: TomlFields, key: str, expiry_key: str) -> Validity:
    digest = table.text(key)
    if not DIGEST.fullmatch(digest):
        raise table.error(key, "must be 64 digits of 0-9 and a-f; use esg tokens add")
    if not table.has(expiry_key):
        return Validity(digest)
    try:
        return Validity(digest, parse_time_s(table.text(expiry_key)))
    except ValueError:
        raise table.error(expiry_key, 'must be a time, as in "2027-02-16T08:00:00Z"') from None


def parse_time_s(text: str) -> int:
    """A date, or a time, as Unix time; without an offset it is UTC's. A ValueError if it is none.

    >>> parse_time_s("1970-01-02"), parse_time_s("1970-01-01T01:00:00+01:00")
    (86400, 0)
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return int(moment.timestamp())
    except OverflowError:  # an offset that leads out of the calendar
        raise ValueError(text) from None


def time_text(at_s: int) -> str:
    """
    >>> time_text(86400)
    '1970-01-02T00:00:00+00:00'
    """
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def write_entries(file: Path, entries: Entries) -> None:
    """For their owner alone, and all at once."""
    with written(file, private=True) as out:
        out.write("# The gateway's clients. Written by esg tokens.\n")
        for entry in entries.values():
            out.write(f"\n[{entry.name}]\n")
            for key, value in _document(entry).items():
                out.write(f"{key} = {value}\n")


def _document(entry: TokenEntry) -> dict[str, str]:
    document = _lines(entry.current, "sha256", "expires")
    if entry.former is not None:
        document |= _lines(entry.former, "former_sha256", "former_expires")
    if entry.operator:
        document["operator"] = "true"
    for known in fields(Quota):
        value = getattr(entry.quota, known.name)
        if value != known.default:
            document[known.name] = str(value)
    return document


def _lines(token: Validity, key: str, expiry_key: str) -> dict[str, str]:
    lines = {key: f'"{token.digest}"'}
    if token.expires_s is not None:
        lines[expiry_key] = f'"{time_text(token.expires_s)}"'
    return lines


def check_client_name(name: str) -> None:
    if not CLIENT.fullmatch(name):
        raise Rejected(
            f"client {name[:80]!r}: a name is up to 32 of a-z, 0-9 and -, the first no dash; "
            "choose another one"
        )
