"""Durations in an emulated world: how long things take, and how they end.

Durations come from the profiles with Gaussian noise. The noise is keyed by name (the seed, the
task's oldest request, its stage), not by the order of draws, so that every policy meets the same
noise however it schedules.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct

from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import Phases
from esg.core.catalog.profile import Profile
from esg.core.estimation.corrected import corrected
from esg.core.estimation.transfer import EMULATED_LOCAL, EMULATED_REMOTE, DataLink
from esg.core.messages.events import Correction
from esg.core.messages.node import ExecutionEnded, ModelLoaded, ModelUnloaded
from esg.core.messages.task_order import TaskOrder
from esg.units import ms, seconds

LEAST_PACE = 0.05
"""Whatever the noise, nothing takes less than this share of its profiled time."""

TWO_NUMBERS = Struct(">QQ")
TO_UNIT = 2.0**-64


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationSettings:
    """What durations are made of. `noise` scales the profiles' own spread: 1 is as profiled, 0 is
    none. A request's payload was brought to its first invoker by its client, so reading it is
    local.

    `abort_us` is what it takes to stop a task that runs, `fetch_timeout_us` how long a task waits
    for inputs that are not there yet.
    """

    local: DataLink = EMULATED_LOCAL
    remote: DataLink = EMULATED_REMOTE
    noise: float = 1.0
    unload_us: int = seconds(1.2)
    abort_us: int = 0
    fetch_timeout_us: int = ms(100)


class Durations:
    """Durations for one seed. Here everything ends well."""

    def __init__(
        self, catalog: Catalog, seed: int, settings: DurationSettings | None = None
    ) -> None:
        self._profiled = self._catalog = catalog
        self._noise = blake2b(f"{seed}:".encode(), digest_size=16)
        self.settings = settings or DurationSettings()

    def run(self, now_us: int, order: TaskOrder) -> tuple[int, ExecutionEnded]:
        """How long a task runs that begins now, and how it ends."""
        return self.run_us(order), ExecutionEnded(task=order.task)

    def load(
        self, now_us: int, invoker: str, index: int, function: str, *, again: bool = False
    ) -> tuple[int, ModelLoaded | ModelUnloaded]:
        """How long it takes to load a model on a slice, of a node that may have had it before; and
        how that ends."""
        end = ModelLoaded(slice=index, function=function)
        return self.load_us(invoker, index, function, again=again), end

    def run_us(self, order: TaskOrder) -> int:
        """Fetching the inputs, then running: the time from a warm start to the results."""
        function = self._catalog.functions[order.function]
        key = f"{order.jobs[0].request}/{order.stage}"
        working_us = self._work_us(function.profile, key, function.profile.time_us_of(order.config))
        # local and remote inputs, all of one size, are read at the same time, each over one link
        payloads, local, remote = order.count_inputs()
        fetching_us = self.settings.local.time_us((payloads + local) * function.input_bytes)
        if remote:
            remote_us = self.settings.remote.time_us(remote * function.input_bytes)
            fetching_us = max(fetching_us, remote_us)
        return fetching_us + working_us or 1

    def phases(self, order: TaskOrder, took_us: int) -> Phases:
        """How long the phases of a task are that takes so long from a warm start, if nothing keeps
        it waiting. Whatever was slow about it, the profile's part of it was as slow everywhere."""
        function = self._catalog.functions[order.function]
        profiled = function.profile.phases_of(order.config)
        key = f"{order.jobs[0].request}/{order.stage}"
        working_us = self._work_us(function.profile, key, profiled.total_us)
        slices_us = min(took_us, working_us * profiled.slices_us // profiled.total_us)
        after_us = min(took_us - slices_us, working_us * profiled.after_us // profiled.total_us)
        return Phases(took_us - slices_us - after_us, slices_us, after_us)

    def correct(self, corrections: Sequence[Correction]) -> None:
        """From now on functions take what they were found to take on the day that is lived through
        again. What a scheduler believes about it is its own business."""
        self._catalog = corrected(self._profiled, corrections, self._catalog)

    def work_us(self, function: str, key: str, profiled_us: int) -> int:
        """What takes this long on average takes this long for the task of this key."""
        return self._work_us(self._catalog.functions[function].profile, key, profiled_us)

    def load_us(self, invoker: str, index: int, function: str, *, again: bool = False) -> int:
        """How long loading a model takes."""
        profiled_us = self._catalog.functions[function].load_us(again=again)
        return max(1, self.work_us(function, f"{invoker}/{index}/{function}", profiled_us))

    def _work_us(self, profile: Profile, key: str, profiled_us: int) -> int:
        # a standard normal number that depends on the seed and the key alone (Box-Muller)
        u, v = TWO_NUMBERS.unpack(self._hash(key))
        z = math.sqrt(-2 * math.log((u + 1) * TO_UNIT)) * math.cos(2 * math.pi * (v * TO_UNIT))
        pace = 1 + self.settings.noise * profile.relative_std * z
        return round(profiled_us * (pace if pace > LEAST_PACE else LEAST_PACE))

    def draw(self, key: str) -> float:
        """A number between 0 and 1 that depends on the seed and the key alone."""
        return int.from_bytes(self._hash(f"draw:{key}")[:8]) * TO_UNIT

    def _hash(self, key: str) -> bytes:
        noise = self._noise.copy()  # half the time of hashing the seed each time
        noise.update(key.encode())
        return noise.digest()
