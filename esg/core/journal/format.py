"""The journal, a write-ahead log: every event with its time, and a digest of the orders that
followed. No order is carried out before its event is written, and no promise is made to anybody
outside the mesh before it is on disk.

One line of JSON each, the first being a header that says which code, catalog and policy wrote it:

    {"journal": 8, "esg": "0.1.0", "catalog": "f3...", "settings": {"policy": "esg", ...}, ...}
    {"snapshot": {...}, "memory": {...}, "wall_us": 1793870400000000}
    {"at": 12000, "event": "RequestArrived", "is": {"request": "r1", ...}, "orders": "9c..."}

Each line ends with a checksum (see `checksums`), which is left out here.

Replaying the events through a scheduler of the same kind gives back the same state (see `replay`).
Only the code that wrote a journal replays it: across versions, carry a snapshot.

A journal that would grow for ever is a directory of segments, each a file of this kind that begins
with a snapshot: the state that the segment before it ended in, and what the shell around the
scheduler remembered. So any segment can be understood without the older ones. What the shell wants
to remember of an event stands beside it as a `memo`; a scheduler never sees it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import msgspec

from esg.core.catalog.model import Catalog, Function
from esg.core.catalog.ports import is_plain
from esg.core.catalog.profile import Profile
from esg.core.messages.codec import Message, decode, digest, digest_of, encode, to_bytes, to_text
from esg.core.messages.commands import Command
from esg.core.messages.events import EVENTS, Event
from esg.core.scheduler.settings import SchedulerSettings
from esg.errors import Rejected
from esg.suggest import shortened
from esg.version import __version__

FORMAT = 8
_SETTINGS = {field.name for field in fields(SchedulerSettings)}
_EVENT_READERS = {kind.__name__: msgspec.json.Decoder(kind).decode for kind in EVENTS}


class Header(Message, frozen=True, kw_only=True):
    """Who wrote a journal, and all that is needed to build the same scheduler again: its settings,
    and the catalog of this digest, with times multiplied by `time_scale`. `epoch` is the
    number after which a controller's process counts its tasks (see `next_epoch`). `world` is the
    rest of an emulated run's scenario; a live mesh has none."""

    journal: int = FORMAT
    esg: str = __version__
    catalog: str
    time_scale: float = 1.0
    settings: SchedulerSettings
    epoch: int = 0
    world: dict[str, Any] = msgspec.field(default_factory=dict)


Memo = dict[str, str]


class _Line(Message, frozen=True, kw_only=True):
    """One entry of the file; what it is about is read when its kind is known."""

    at: int
    event: str
    content: msgspec.Raw = msgspec.field(name="is")
    orders: str
    memo: Memo | None = None


_read_line = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True)
class JournalEntry:
    now_us: int
    event: Event
    orders: str
    memo: Memo | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was known when a segment began: the scheduler's state, and the shell's own memory.

    `wall_us` is what the wall clock said, so that a process that goes on from here knows how long
    none was there.
    """

    state: Any
    memory: Any
    wall_us: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A journal's file: who wrote it, from where it goes on, and what happened. Where the snapshot
    is damaged, it goes on from the end of the segment `before`."""

    header: Header
    snapshot: Snapshot | None
    entries: Iterator[JournalEntry]
    before: "Segment | None" = None


def orders_digest(commands: Sequence[Command]) -> str:
    """A digest of some orders: kind, content and sequence."""
    return digest_of(to_bytes(commands)) if commands else ""


def catalog_digest(catalog: Catalog) -> str:
    """A digest of everything in a catalog that decisions depend on."""
    applications = [
        [
            a.name,
            a.slo_us,
            [[s.name, s.function.name, list(s.after)] for s in a.stages.values()],
            a.late_requests,
        ]
        for a in catalog.applications.values()
    ]
    memories_mb = {kind: said.memory_mb for kind, said in catalog.kinds.items()}
    slices = [memories_mb, catalog.cluster.kinds()]
    prices = encode(catalog.prices)
    return digest(json.dumps([_function_rows(catalog), applications, prices, slices]))


def functions_digest(catalog: Catalog) -> str:
    """A digest of the functions alone: what processes must agree on whatever applications
    come and go."""
    return digest(json.dumps(_function_rows(catalog)))


def _function_rows(catalog: Catalog) -> list[Any]:
    return [
        [
            f.name,
            f.cold_start_us,
            f.reload_us,
            f.input_bytes,
            f.memory_mb,
            _profile_rows(f.profile),
            *_ports_rows(f),
        ]
        for f in catalog.functions.values()
    ]


def _ports_rows(function: Function) -> list[Any]:
    """The inputs and outputs that are more than a blob each: what is in them is declared. Of blobs
    a media type says what may be registered, and a journal shows by itself what was."""
    ports = (function.inputs, function.outputs)
    if all(map(is_plain, ports)):
        return []
    return [[[p.name, p.media_type, p.datatype, *p.shape] for p in some] for some in ports]


def _profile_rows(profile: Profile) -> list[Any]:
    """Without costs: they follow from prices, and from the tasks' mode."""
    rows = [[*config, *profile.phases_of(config)] for config in profile.configs]
    return [profile.relative_std, rows]


def header_line(header: Header) -> str:
    return to_text(header)


def snapshot_line(state: str, memory: str, wall_us: int) -> str:
    """Both as JSON's text already: they are large, and may be made at different times."""
    return f'{{"snapshot":{state},"memory":{memory},"wall_us":{wall_us}}}'


def entry_line(entry: JournalEntry) -> str:
    event = entry.event
    memo = "" if entry.memo is None else f',"memo":{to_text(entry.memo)}'
    return (
        f'{{"at":{entry.now_us},"event":"{type(event).__name__}",'
        f'"is":{to_text(event)},"orders":"{entry.orders}"{memo}}}'
    )


def read_segment(lines: Iterator[str], *, any_version: bool = False) -> Segment:
    """A journal's file; its entries are read as they are needed."""
    header = read_header(next(lines, ""), any_version=any_version)
    second = next(lines, None)
    if second is None:
        return Segment(header, None, iter(()))
    snapshot = _snapshot(second)
    if snapshot is None:
        return Segment(header, None, read_entries(chain([second], lines)))
    return Segment(header, snapshot, read_entries(lines, first_line=3))


def read_header(line: str, *, any_version: bool = False) -> Header:
    """Who wrote a journal, if it was code that writes as this does. Of a segment that holds nothing
    but a snapshot, the writer may have been of `any_version`: then only that is known of it, and it
    is of no catalog."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict) or "journal" not in raw or "esg" not in raw:
        raise Rejected("this is no journal: its first line is not a journal's header")
    ours = raw["journal"] == FORMAT and raw["esg"] == __version__
    # Between two releases the version says little; which settings were known says something
    settings = raw.get("settings")
    if ours and isinstance(settings, dict) and settings.keys() == _SETTINGS:
        return decode(Header, raw)
    if any_version:
        writer = {"journal": raw["journal"], "esg": raw["esg"]}
        return decode(Header, {**writer, "catalog": "", "settings": {}})
    if ours:
        raise Rejected("journal line 1: its settings are not those of this build of esg")
    raise Rejected(
        f"this journal was written by esg {str(raw['esg'])[:20]} "
        f"(format {str(raw['journal'])[:20]}); this is esg {__version__} (format {FORMAT}), "
        "and only the same one can replay it"
    )


def _snapshot(line: str) -> Snapshot | None:
    """A file's second line, if it is a snapshot."""
    raw = _json(line, 2)
    if not isinstance(raw, dict) or set(raw) != {"snapshot", "memory", "wall_us"}:
        return None
    if type(raw["wall_us"]) is not int:
        raise Rejected("journal line 2: not a snapshot of this format")
    return Snapshot(raw["snapshot"], raw["memory"], raw["wall_us"])


def read_entries(lines: Iterable[str], first_line: int = 2) -> Iterator[JournalEntry]:
    """The entries after the header, or a Rejected that names the line."""
    for number, line in enumerate(lines, first_line):
        try:
            raw = _read_line(line)
            yield JournalEntry(raw.at, _EVENT_READERS[raw.event](raw.content), raw.orders, raw.memo)
        except KeyError:
            called = shortened(raw.event)
            raise Rejected(f"journal line {number}: no event is called {called!r}") from None
        except (ValueError, RecursionError) as error:
            problem = shortened(str(error))
            raise Rejected(f"journal line {number}: not an entry: {problem}") from None


def _json(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"journal line {number}: not JSON: {error}") from None
