"""How long to look, and how long one answer may take."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, settings

from esg.errors import Rejected

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
FEW = 100
LONGEST_S = 60
"""Far more than any example takes, on the slowest machine: what takes longer hangs."""

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
def promptly() -> Iterator[None]:
    """What hangs is an error like any other."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no answer within {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def gives_a_value_or_is_refused(read: Callable[[], Any]) -> None:
    """The whole promise. A refusal has words, and they fit on a screen."""
    words = "a value"
    with promptly():
        try:
            read()
        except Rejected as refusal:
            words = str(refusal)
    assert 0 < len(words) < LONGEST_WORDS
