"""Telling traces apart, or saying that one cannot."""

from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.workload.traces.detect import detect
from esg.workload.traces.read import read_trace
from tests.support.trace_files import Write


@pytest.mark.parametrize(
    ("lines", "format"),
    [
        (("minute_1,HashFunction", "1,f"), "azure2019"),
        (("DURATION,End_Timestamp", "1,2"), "azure2021"),
        (("id,TIMESTAMP", "1,2"), "timestamps"),
        (("time,function", "1,f"), "timestamps"),
        (("minute,count", "1,2"), "counts"),
        (("requests", "1", "2"), "counts"),
        (("2024-01-01 00:00:00",), "timestamps"),
        (("0.5", "1.5"), "timestamps"),
        (("5", "7", "3"), "counts"),
    ],
)
def test_a_format_is_known_by_its_header_or_content(
    write: Write, lines: tuple[str, ...], format: str
) -> None:
    assert detect(write(*lines)) == format


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("1", "2", "2"), ":1: cannot tell the format: whole numbers that never fall"),
        (("5",), ":1: cannot tell the format: whole numbers that never fall"),
        (("1,2", "3,4"), ":1: cannot tell the format: 2 numbers per row"),
        (("timestamp,count", "1,2"), ":1: cannot tell the format: it has a column of timestamps"),
        (("name,minute_1", "f,2"), ":1: cannot tell the format: it has columns of minutes"),
        (("a,b", "1,2"), ":1: cannot tell the format: no known column in 'a,b'"),
        (("at_us,application", "1,a"), ":1: these are saved arrivals, not a trace"),
        (("",), ": empty"),
    ],
)
def test_trace_of_unclear_format_is_refused_with_a_question(
    write: Write, lines: tuple[str, ...], says: str
) -> None:
    path = write(*lines)
    with pytest.raises(Rejected) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}{says}")
    assert "\n" not in str(refused.value)


def test_a_misspelt_format_is_refused(write: Write) -> None:
    with pytest.raises(Rejected, match="did you mean 'azure2019'"):
        read_trace(write("5"), "azure2109")


def test_the_format_settles_what_the_content_leaves_open(write: Write) -> None:
    path = write("1", "2", "2")
    assert read_trace(path, "counts").invocations == 5
    assert read_trace(path, "timestamps").invocations == 3


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="no such file"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(Rejected, match="not a regular file"):
        read_trace(tmp_path, "counts")
    packed = tmp_path / "trace.gz"
    packed.write_bytes(b"\x1f\x8b\x08\x00\xff\xfe\n")
    with pytest.raises(Rejected, match="unpack or convert it first"):
        read_trace(packed)
    odd = tmp_path / "odd.csv"
    odd.write_text('5\n3\n"' + "9" * 200_000 + "\n")
    with pytest.raises(Rejected, match=r"odd\.csv:3: not CSV"):
        read_trace(odd, "counts")
