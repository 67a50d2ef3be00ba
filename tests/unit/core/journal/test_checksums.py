"""Checksums of a journal's lines: whatever was changed does not fit."""

import json
from io import BytesIO
from itertools import pairwise
from random import Random

import pytest

from esg.core.journal.checksums import (
    Damaged,
    Group,
    read_groups,
    sealed_group,
    sealed_header,
)
from esg.core.journal.format import FORMAT

HEADER = f'{{"journal":{FORMAT},"esg":"0"}}'
SNAPSHOT = '{"snapshot":{"é":1},"memory":{},"wall_us":1}'
GROUPS = [['{"at":1}'], ['{"at":2}', '{"at":3}', '{"at":4}'], ['{"at":5}']]


def segment() -> bytes:
    data, check = sealed_header(HEADER, 0xC0FFEE)
    for lines in ([SNAPSHOT], *GROUPS):
        more, check = sealed_group(lines, check)
        data += more
    return data


def read(data: bytes, *, may_be_torn: bool = False) -> list[Group]:
    return list(read_groups(BytesIO(data), may_be_torn=may_be_torn))


def test_lines_come_back_without_their_checksums_group_by_group() -> None:
    found = read(segment())
    assert [group.lines for group in found] == [[HEADER], [SNAPSHOT], *GROUPS]
    assert found[-1].end == len(segment())


def test_every_line_stays_a_document() -> None:
    header, *_, last = map(json.loads, segment().splitlines())
    assert header["after"] == "00c0ffee"
    assert last == {"at": 5, "crc": last["crc"]}


@pytest.mark.parametrize("may_be_torn", [False, True])
def test_every_single_bit_is_watched(may_be_torn: bool) -> None:
    whole = segment()
    for place in range(8 * len(whole)):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        with pytest.raises(Damaged) as found:
            read(bytes(data), may_be_torn=may_be_torn)
        assert found.value.whole <= place // 8


def test_any_end_that_is_cut_off_is_torn_and_leaves_whole_groups() -> None:
    whole = segment()
    ends = [group.end for group in read(whole)]
    for end in range(ends[1], len(whole)):
        found = read(whole[:end], may_be_torn=True)
        assert found[-1].end == max(e for e in ends if e <= end)
        if end not in ends:
            with pytest.raises(Damaged, match=r"line \d \(byte \d+\) is (torn|missing)"):
                read(whole[:end])


def test_lines_in_another_order_do_not_fit() -> None:
    lines = segment().splitlines(keepends=True)
    for first, second in pairwise(range(len(lines))):
        swapped = list(lines)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        with pytest.raises(Damaged, match=f"line {first + 1} "):
            list(read_groups(swapped))


def test_a_line_of_another_segment_does_not_fit() -> None:
    lines = segment().splitlines(keepends=True)
    stray, _ = sealed_group(['{"at":2}'], Random(1).getrandbits(32))
    with pytest.raises(Damaged, match=r"line 4 .*its checksum does not fit"):
        list(read_groups([*lines[:3], stray, *lines[4:]]))


def test_lines_of_an_older_format_are_given_as_they_are() -> None:
    lines = [b'{"journal":4,"esg":"0"}\n', b'{"at":1}\n']
    assert [group.lines for group in read_groups(lines)] == [[line.decode()] for line in lines]


def test_no_lines_are_no_group() -> None:
    assert sealed_group([], 7) == (b"", 7)
    assert read(b"") == []
