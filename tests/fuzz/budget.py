"""How long to look, and what one answer may take."""

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, settings

from esg.errors import Rejected

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
FEW = 100
LONGEST_S = 60
"""Far more than any example takes, on the slowest machine: what takes longer hangs."""

MOST_BYTES = 2**29
"""Of memory: far more than any example takes, and less than a machine has."""
LONGEST_WORDS = 5_000


def fuzzed(share: float = 1.0) -> settings:
    """A target's examples: always the same ones, unless a number is asked for. An example that
    takes long gets a share of them."""
    return settings(
        max_examples=max(10, round((EXAMPLES or FEW) * share)),
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def within_bounds() -> Iterator[None]:
    """What hangs, or would take all memory there is, is an error like any other."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no answer within {LONGEST_S} s")

    alarm = signal.signal(signal.SIGALRM, too_long)
    memory = resource.getrlimit(resource.RLIMIT_DATA)
    signal.alarm(LONGEST_S)
    resource.setrlimit(resource.RLIMIT_DATA, (_held_bytes() + MOST_BYTES, memory[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, alarm)
        resource.setrlimit(resource.RLIMIT_DATA, memory)


def _held_bytes() -> int:
    """What counts towards the limit."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    return pages * resource.getpagesize()


def gives_a_value_or_is_refused(read: Callable[[], Any]) -> None:
    """The whole promise. A refusal has words, and they fit on a screen."""
    words = "a value"
    with within_bounds():
        try:
            read()
        except Rejected as refusal:
            words = str(refusal)
    assert 0 < len(words) < LONGEST_WORDS
