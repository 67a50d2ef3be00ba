"""Profile drift: when what tasks take is no longer what their profile says.

A profile was measured once, on a quiet machine. What the scheduler sees is another matter: orders
travel, neighbours are busy, a driver was updated. So of every function, batch size and kind of
slices the latest tasks are remembered: what each took, from its order to the report of its end and
without the loading of models, in millionths of its profile. Tasks that had to wait for a model do
not count at all.

Their median, within bounds, corrects the profile (`corrected`) as soon as it says something new:

    - enough tasks have been seen;
    - it is more than a twentieth away from the correction in force;
    - and that is no accident: of the tasks seen, so many lie on one side of the correction in force
      that a fair coin would hardly do it (two standard deviations).

A median takes no notice of the odd straggler, and the coin keeps a function whose times vary much
from being corrected all the time: each correction means that engines are built anew. That is also
why all that moved is corrected at once, and then nothing for some seconds.

A batch size that has not been seen for long, while others of its function have, loses its
correction, and so does one on slices of a kind that plans have left. Otherwise one bad moment could
make it look so slow that it is never tried again.

Only plans follow. Which SLOs are refused as impossible goes by the profile itself: a mesh that
refused everything for being slow would never find out that it is fast again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.estimation.corrected import pace_ppm_of
from esg.core.messages.events import Correction
from esg.core.state.state import Measured, State
from esg.units import PPM, seconds

WINDOW = 32
"""Tasks that are remembered."""
ENOUGH = 8
MOVED_PPM = 50_000
STEP_PPM = 1_000
"""Paces are kept in steps of a thousandth: no measurement is better than that."""
LEAST_PPM, MOST_PPM = 250_000, 4_000_000
"""Bounds of a correction: beyond them something else is wrong than the profile."""
EVERY_US = seconds(5)
FORGOTTEN_US = seconds(600)


def observe(
    state: State, now_us: int, function: str, config: Config, *, profiled_us: int, took_us: int
) -> Measured:
    """Note what a task took."""
    seen, batch, kind = state.measured.setdefault(function, []), config.batch, config.kind
    found = next((one for one in seen if one.batch == batch and one.kind == kind), None)
    if found is None:
        found = Measured(batch, kind=kind)
        seen.append(found)
        seen.sort(key=lambda measured: measured.of)
    if now_us - found.latest_us >= FORGOTTEN_US:
        found.paces_ppm.clear()  # so long ago, it was another time
    found.tasks += 1
    found.latest_us = now_us
    found.paces_ppm.append(took_us * PPM // profiled_us // STEP_PPM * STEP_PPM)
    del found.paces_ppm[:-WINDOW]
    return found


def corrections_due(
    state: State, now_us: int, function: str, measured: Measured
) -> tuple[Correction, ...] | None:
    """All corrections that should hold from now on, if those of the function that was just
    measured should change; otherwise None."""
    if state.corrected_us and now_us - state.corrected_us < EVERY_US:
        return None
    in_force = _of(state.corrections, function)
    moved = _has_moved(measured, pace_ppm_of(in_force, *measured.of))
    if not moved and not (in_force and _forgotten(state.measured[function])):
        return None
    found = [one for one in state.corrections if one.function not in state.measured]
    for name, seen in state.measured.items():
        found += _corrections(name, seen, _of(state.corrections, name))
    return None if tuple(found) == state.corrections else tuple(found)


@dataclass(frozen=True, slots=True)
class Drift:
    """How one batch size of a function stands on one kind of slices, for people: the time that its
    smallest config is profiled with, and what tasks took and are planned with, in millionths of
    their profile."""

    function: str
    batch: int
    kind: str
    tasks: int
    profiled_us: int
    measured_ppm: int
    planned_ppm: int


def drifts(state: State, catalog: Catalog) -> list[Drift]:
    """All that was measured, function by function; but on no slices that are gone."""
    found = []
    for name in sorted(state.measured):
        profile = catalog.functions[name].profile
        in_force = _of(state.corrections, name)
        for one in state.measured[name]:
            alike = [c for c in profile.configs if (c.batch, c.kind) == one.of]
            smallest = min(alike, key=lambda c: (c.vgpus, c.vcpus), default=None)
            if smallest is None:
                continue
            found.append(
                Drift(
                    name,
                    one.batch,
                    one.kind,
                    one.tasks,
                    profile.time_us_of(smallest),
                    median(one.paces_ppm),
                    pace_ppm_of(in_force, *one.of),
                )
            )
    return found


def median(paces_ppm: Sequence[int]) -> int:
    """The median; of an even number of values the upper one of the middle.

    >>> median([990, 1310, 1300, 1290, 9000]), median([1, 2])
    (1300, 2)
    """
    return sorted(paces_ppm)[len(paces_ppm) // 2]


def _within_bounds(pace_ppm: int) -> int:
    """A pace that a correction may have.

    >>> _within_bounds(1_300_000), _within_bounds(9_000_000), _within_bounds(2)
    (1300000, 4000000, 250000)
    """
    return min(MOST_PPM, max(LEAST_PPM, pace_ppm))


def _has_moved(measured: Measured, in_force: int) -> bool:
    seen = measured.paces_ppm
    if len(seen) < ENOUGH:
        return False
    if abs(_within_bounds(median(seen)) - in_force) * PPM <= MOVED_PPM * in_force:
        return False
    above = sum(pace_ppm > in_force for pace_ppm in seen)
    below = sum(pace_ppm < in_force for pace_ppm in seen)
    return (above - below) ** 2 > 4 * len(seen)


def _corrections(
    function: str, seen: Sequence[Measured], in_force: Sequence[Correction]
) -> Sequence[Correction]:
    """The corrections of one function: as they are, but for what is to be forgotten, unless one of
    its batch sizes has moved."""
    forgotten = _forgotten(seen)
    kept = [one for one in in_force if (one.batch, one.kind) not in forgotten]
    fresh = [one for one in seen if one.of not in forgotten]
    if not any(_has_moved(one, pace_ppm_of(in_force, *one.of)) for one in fresh):
        return kept
    known = {(correction.batch, correction.kind): correction for correction in kept}
    for one in fresh:
        if len(one.paces_ppm) >= ENOUGH:
            pace_ppm, (batch, kind) = _within_bounds(median(one.paces_ppm)), one.of
            known[one.of] = Correction(function=function, batch=batch, pace_ppm=pace_ppm, kind=kind)
    return [known[of] for of in sorted(known)]


def _forgotten(seen: Sequence[Measured]) -> list[tuple[int, str]]:
    """Batch sizes, on slices of some kind, that went out of use long before others; none, of a
    function that rests."""
    latest_us = max(one.latest_us for one in seen)
    return [one.of for one in seen if latest_us - one.latest_us >= FORGOTTEN_US]


def _of(corrections: Sequence[Correction], function: str) -> list[Correction]:
    return [correction for correction in corrections if correction.function == function]
