"""The journal: every event with its time, and a digest of the orders that followed.

One line of JSON each, the first being a header that says which code, catalog and policy wrote it:

    {"journal": 1, "esg": "0.1.0", "catalog": "f3...", "policy": "esg", ...}
    {"at": 12000, "event": "RequestArrived", "is": {"request": "r1", ...}, "orders": "9c..."}

Replaying the events through a scheduler of the same kind gives back the same state; if an order
comes out differently, `Diverged` says where. Only the code that wrote a journal replays it: across
versions, carry a snapshot.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from esg import __version__
from esg.catalog import Catalog
from esg.codec import decode, digest, encode, to_text
from esg.commands import Command
from esg.errors import Rejected
from esg.events import EVENTS, Event
from esg.profile import Profile
from esg.scheduler import Scheduler

FORMAT = 1
_EVENT_TYPES = {kind.__name__: kind for kind in EVENTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Who wrote a journal. `settings` is whatever the writer needs to build the same scheduler."""

    journal: int = FORMAT
    esg: str = __version__
    catalog: str
    policy: str
    settings: dict[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    now_us: int
    event: Event
    orders: str


class Diverged(Exception):
    """A replay gave other orders than the journal says."""

    def __init__(self, position: int, entry: Entry, got: str) -> None:
        super().__init__(
            f"entry {position} at {entry.now_us} us ({type(entry.event).__name__}): "
            f"the journal has orders {entry.orders!r}, the replay gave {got!r}"
        )
        self.position = position
        self.entry = entry
        self.got = got


def orders_digest(commands: Iterable[Command]) -> str:
    """A fingerprint of some orders: kind, content and sequence."""
    text = "\n".join(f"{type(command).__name__}{to_text(command)}" for command in commands)
    return digest(text) if text else ""


def catalog_digest(catalog: Catalog) -> str:
    """A fingerprint of everything in a catalog that decisions depend on."""
    applications = [
        [a.name, a.slo_us, [[s.name, s.function.name, list(s.after)] for s in a.stages.values()]]
        for a in catalog.applications.values()
    ]
    return digest(json.dumps([_function_rows(catalog), applications, encode(catalog.prices)]))


def functions_digest(catalog: Catalog) -> str:
    """A fingerprint of the functions alone: what processes must agree on whatever applications
    come and go."""
    return digest(json.dumps(_function_rows(catalog)))


def _function_rows(catalog: Catalog) -> list[Any]:
    return [
        [f.name, f.cold_start_us, f.input_bytes, f.memory_mb, _profile_rows(f.profile)]
        for f in catalog.functions.values()
    ]


def _profile_rows(profile: Profile) -> list[Any]:
    rows = [
        [*config, int(time_us), int(cost_pusd)]
        for config, time_us, cost_pusd in zip(
            profile.configs, profile.time_us, profile.job_cost_pusd, strict=True
        )
    ]
    return [profile.relative_std, rows]


def header_line(header: Header) -> str:
    return to_text(header)


def entry_line(entry: Entry) -> str:
    event = entry.event
    return (
        f'{{"at":{entry.now_us},"event":"{type(event).__name__}",'
        f'"is":{to_text(event)},"orders":"{entry.orders}"}}'
    )


def read_header(line: str) -> Header:
    """Who wrote a journal, if it was code that writes as this does."""
    raw = _json(line, 1)
    if not isinstance(raw, dict) or "journal" not in raw or "esg" not in raw:
        raise Rejected("journal line 1: not a journal's header; is this the right file?")
    if raw["journal"] != FORMAT or raw["esg"] != __version__:
        raise Rejected(
            f"this journal was written by esg {str(raw['esg'])[:20]} "
            f"(format {str(raw['journal'])[:20]}); this is esg {__version__} (format {FORMAT}), "
            "and only the same one can replay it"
        )
    return decode(Header, raw)


def read_entries(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries after the header, or a Rejected that names the line."""
    for number, line in enumerate(lines, 2):
        raw = _json(line, number)
        if not isinstance(raw, dict) or set(raw) != {"at", "event", "is", "orders"}:
            raise Rejected(f"journal line {number}: not an entry")
        kind = _EVENT_TYPES.get(raw["event"]) if type(raw["event"]) is str else None
        if kind is None or type(raw["at"]) is not int or type(raw["orders"]) is not str:
            raise Rejected(f"journal line {number}: not an entry of this format")
        try:
            event = decode(kind, raw["is"])
        except Rejected as error:
            raise Rejected(f"journal line {number}: {error}") from None
        yield Entry(raw["at"], event, raw["orders"])


def replay(
    scheduler: Scheduler,
    entries: Iterable[Entry],
    observe: Callable[[int, Event, list[Command]], None] | None = None,
) -> Scheduler:
    """Feed a journal's entries to a scheduler, comparing every order."""
    for position, entry in enumerate(entries, 1):
        if entry.now_us < scheduler.state.now_us:
            raise Rejected(f"journal entry {position}: time runs backwards, to {entry.now_us} us")
        commands = scheduler.handle(entry.now_us, entry.event)
        got = orders_digest(commands)
        if got != entry.orders:
            raise Diverged(position, entry, got)
        if observe is not None:
            observe(entry.now_us, entry.event, commands)
    return scheduler


def _json(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"journal line {number}: not JSON: {error}") from None
