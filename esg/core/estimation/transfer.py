"""Transfer times: what it takes to bring an input to its stage, as assumed and as emulated.

Two figures for the same thing, on purpose. `ASSUMED_REMOTE` is the prior of a policy, for a
transfer that has not been seen yet: about what a gigabit link takes, with some caution, since an
input that comes late is worse than one that comes early. `EMULATED_REMOTE` is what the emulated
world does, unless a scenario says otherwise; a policy knows nothing of it, and has to learn.
"""

from dataclasses import dataclass

from esg.units import US_PER_S, ms


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLink:
    """One way to read a stage's input: a fixed delay and a rate."""

    delay_us: int
    bytes_per_s: int

    def time_us(self, size_bytes: int) -> int:
        return self.delay_us + size_bytes * US_PER_S // self.bytes_per_s if size_bytes else 0


ASSUMED_REMOTE = DataLink(delay_us=ms(10), bytes_per_s=100_000_000)
EMULATED_REMOTE = DataLink(delay_us=ms(8), bytes_per_s=100_000_000)
EMULATED_LOCAL = DataLink(delay_us=ms(0.5), bytes_per_s=2_000_000_000)
