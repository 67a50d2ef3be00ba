"""Named contents in one blob: whatever goes in comes out, and nothing else does."""

import json
from typing import Any

import pytest

from esg.errors import Rejected
from esg.parts import MARK, Part, is_packed, packed, unpacked

PARTS = [
    Part("shades", bytes(range(24)), "FP32", (2, 3)),
    Part("picture", b"\x89PNG"),
    Part("words", b"\x02\0\0\0hi\0\0\0\0", "BYTES", (2,)),
    Part("nothing", b"", "INT64", (0, 7)),
]


def test_parts_come_out_as_they_went_in() -> None:
    blob = packed(PARTS)
    assert is_packed(blob)
    assert [part._replace(content=bytes(part.content)) for part in unpacked(blob)] == PARTS


def test_contents_are_aligned_for_arrays() -> None:
    blob = packed(PARTS)
    assert all(blob.index(bytes(part.content)) % 8 == 0 for part in PARTS if len(part.content) > 8)


def blob_of(header: Any, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return MARK + len(text).to_bytes(4, "little") + text + content


@pytest.mark.parametrize(
    ("blob", "words"),
    [
        (b"a picture", "no named parts"),
        (MARK, "longer than it may be"),
        (MARK + b"\xff\xff\xff\xff", "longer than it may be"),
        (blob_of(b"[" * 60_000), "no JSON"),
        (blob_of([]), "no list of 1 to 64"),
        (blob_of([["a", "", [], 1]] * 65, bytes(65 * 8)), "no list of 1 to 64"),
        (blob_of([["a", "", [], True]]), "a part is"),
        (blob_of([["a", "FP31", [], 1]]), "a part is"),
        (blob_of([["", "", [], 0]]), "a part is"),
        (blob_of([["a", "", [], 9]], b"12345678"), "ends behind the end"),
        (blob_of([["a", "", [], 1]], bytes(16)), "send no others"),
        (blob_of([["a", "", [], 0], ["a", "", [], 0]]), "a name of its own"),
        (blob_of([["a", "FP32", [2], 4]], bytes(8)), "4 bytes, where FP32 [2] has 8"),
        (blob_of([["a", "FP32", [-1], 4]], bytes(8)), "a whole number from 0 on"),
        (blob_of([["a", "UINT8", [1] * 9, 1]], bytes(8)), "9 dimensions"),
        (blob_of([["a", "BYTES", [2**30], 0]]), "byte strings; at most 65536"),
        (blob_of([["a", "BYTES", [1], 4]], b"\xff\0\0\0\0\0\0\0"), "ends within element 0"),
    ],
)
def test_a_blob_that_is_not_right_is_refused(blob: bytes, words: str) -> None:
    with pytest.raises(Rejected) as refused:
        unpacked(blob)
    assert words in str(refused.value)
