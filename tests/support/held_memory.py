"""What this process still holds of the large messages that went through it."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def held_since(size: int) -> Iterator[Callable[[], list[bytes]]]:
    """In the block, no garbage is collected: what is not freed by its last reference going away
    stays. The function gives the byte strings of at least this size to which an object refers,
    a frame or coroutine too, and did not before."""
    gc.collect()
    gc.disable()
    before = _held(size)
    try:
        yield lambda: [content for key, content in _held(size).items() if key not in before]
    finally:
        gc.enable()


def _held(size: int) -> dict[int, bytes]:
    return {
        id(each): each
        for owner in gc.get_objects()
        for each in gc.get_referents(owner)
        if isinstance(each, bytes) and len(each) >= size
    }
