"""What this process still holds of the large messages that went through it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """What is not freed by its last reference going away stays."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def held(size: int) -> list[bytes]:
    """Byte strings of at least that size to which any object refers, a frame or coroutine too."""
    found = {
        id(each): each
        for owner in gc.get_objects()
        for each in gc.get_referents(owner)
        if isinstance(each, bytes) and len(each) >= size
    }
    return list(found.values())
