"""Messages of a size: large contents in pieces, and many small ones in groups.

A message that is too large keeps all others of its stream waiting, and gRPC refuses it at last.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
B = TypeVar("B", bytes, bytes | memoryview)
PIECE_BYTES = 2**20


def pieces(content: B, size: int = PIECE_BYTES) -> Iterator[B]:
    """A content in pieces of a size; at least one, as a content may be empty.

    >>> list(pieces(b"abcde", 2)), list(pieces(b"", 2))
    ([b'ab', b'cd', b'e'], [b''])
    """
    for start in range(0, max(1, len(content)), size):
        yield content[start : start + size]


def grouped(items: Iterable[T], limit: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Items in groups, in order, none of which is larger than the limit, unless one item is.

    >>> list(grouped(["a", "bb", "cccc", "d"], 3, len))
    [['a', 'bb'], ['cccc'], ['d']]
    """
    group: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
