"""Contents that are almost right: a good one with a few places spoilt, or nothing but noise."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

AWKWARD = [
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\n",
    b"\r",
    b'"',
    b"'''",
    b"[",
    b"]]",
    b"{" * 2000,
    b"[" * 2000,
    b"=",
    b",",
    b",,,,,",
    b"-1",
    b"0",
    b"1e999",
    b"nan",
    b"inf",
    b"-0.0",
    b"9" * 30,
    b"9" * 5000,
    b"1e308",
    b"true",
    b"null",
    b"~",
    b"../../etc/passwd",
    b"/dev/zero",
    b"%s%n",
    b"\\ud800",
    b"\xc2\x85",
    "ſ\u2028\u0130".encode(),
    b"a" * 10_000,
    b"2026-02-30T25:61:61",
    b"1970-01-01T00:00:00Z",
    b"9999-12-31T23:59:59.999999+14:00",
    b"-9223372036854775809",
    b"18446744073709551616",
]


@dataclass(frozen=True)
class Change:
    """At a place (a fraction of the length) so many bytes give way to others."""

    place: float
    length: int
    instead: bytes

    def apply(self, content: bytes) -> bytes:
        start = int(self.place * len(content))
        return content[:start] + self.instead + content[start + self.length :]


changes = st.builds(
    Change,
    st.floats(0, 1),
    st.integers(0, 40),
    st.one_of(st.sampled_from(AWKWARD), st.binary(max_size=12)),
)


def spoilt(good: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of these with a few changes; or a few lines of several; or anything at all."""
    lines = [line for content in good for line in content.splitlines(keepends=True)]

    def changed(content: bytes, some: list[Change]) -> bytes:
        for change in some:
            content = change.apply(content)
        return content

    return st.one_of(
        st.builds(changed, st.sampled_from(list(good)), st.lists(changes, max_size=4)),
        st.builds(
            changed,
            st.lists(st.sampled_from(lines), max_size=12).map(b"".join),
            st.lists(changes, max_size=2),
        ),
        st.binary(max_size=200),
    )
