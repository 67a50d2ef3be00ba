"""Small results that a node brings along with the report that their task has finished.

They are no part of the event: no decision depends on them. The node keeps them with its report
until that is acknowledged; at the controller they stand beside the event in the journal, as a memo.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping

Brought = Mapping[str, bytes]
"""Results by request."""
NOTHING: Brought = {}


def brought_memo(brought: Brought) -> dict[str, str] | None:
    """What the journal keeps of them.

    >>> brought_memo({"r1": b"cat"}), brought_memo({})
    ({'r1': 'Y2F0'}, None)
    """
    return {request: b64encode(content).decode() for request, content in brought.items()} or None


def what_was_brought(memo: Mapping[str, str] | None) -> Brought:
    """The same, from the memo of a task that has finished.

    >>> what_was_brought({"r1": "Y2F0"}), what_was_brought(None)
    ({'r1': b'cat'}, {})
    """
    return {request: b64decode(content) for request, content in (memo or {}).items()}
