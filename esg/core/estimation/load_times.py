"""Load times: how long a model takes onto a slice, from disk or from the memory of its node.

A model is on a slice, in host memory, or cold. The second is where a node has had it before: the
operating system keeps the files in its page cache, and reads nothing from disk
(benchmarks/model_loading.py measures what that saves). Both times are averaged as they are seen.
"""

from esg.core.catalog.model import Function
from esg.core.estimation.ewma import ewma
from esg.core.state.state import State


def observe_load(state: State, function: str, loading_us: int, *, again: bool) -> None:
    """Note how long a model took to load, on a node that had had it before or had not.

    >>> state = State()
    >>> for loading_us in (1000, 2000):
    ...     observe_load(state, "detect", loading_us, again=False)
    >>> state.cold_starts_us, state.reloads_us
    ({'detect': 1250}, {})
    """
    seen_us = state.reloads_us if again else state.cold_starts_us
    seen_us[function] = ewma(seen_us.get(function, loading_us), loading_us)


def expected_load_us(state: State, function: Function, *, again: bool) -> int:
    """What to expect: the average of what was seen, or what the catalog says."""
    if again and function.name in state.reloads_us:
        return state.reloads_us[function.name]
    if again and function.reload_us is not None:
        return function.reload_us
    return state.cold_starts_us.get(function.name, function.cold_start_us)
