"""Words for clients: what went wrong, without where."""

# attack: G5

import pytest

from esg.runtime.redaction import redacted


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            "slice 127.0.0.1:38221 did not run deblur: UNAVAILABLE: failed to connect to all "
            "addresses; last error: UNKNOWN: ipv4:127.0.0.1:38221: Failed to connect",
            "slice … did not run deblur: UNAVAILABLE: failed to connect to all "
            "addresses; last error: UNKNOWN: …: Failed to connect",
        ),
        ("slice [::1]:38221 did not run deblur", "slice … did not run deblur"),
        ("slice unix:/run/esg/s0.sock did not load it", "slice … did not load it"),
        ("Redis at /dev/shm/mesh-1/redis.sock: closed", "Redis at …: closed"),
        ("Redis at gpu0.example.com:6379 refuses: OOM", "Redis at … refuses: OOM"),
        ("rediss://user@redis:6379/0 is away", "… is away"),
        ("local store /dev/shm/esg/node0: No space", "local store …: No space"),
        (
            "handler /srv/functions/photo/handler.py:Handler: prepare: KeyError: 'x'",
            "handler …: prepare: KeyError: 'x'",
        ),
        ("OSError: no such file: 'a/b.bin'", "OSError: no such file: '…'"),
        ("open('redis.sock') failed", "open('…') failed"),
        ("host 10.0.0.7 is away, ::1 too", "host … is away, … too"),
        (
            "detect failed 3 times, last: CUDA error 700",
            "detect failed 3 times, last: CUDA error 700",
        ),
        ("more than 3.5 requests: at 12.0 s", "more than 3.5 requests: at 12.0 s"),
    ],
)
def test_places_are_left_out_and_the_rest_stays(words: str, shown: str) -> None:
    assert redacted(words) == shown
