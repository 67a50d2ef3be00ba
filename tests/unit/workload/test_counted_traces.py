"""Files that count calls per minute, with everything that is irregular in real ones."""

from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.workload.traces.counted import CountedTrace
from esg.workload.traces.read import read_trace
from tests.support.trace_files import Write


def counted(path: Path, format: str = "auto") -> CountedTrace:
    trace = read_trace(path, format)
    assert isinstance(trace, CountedTrace)
    return trace


@pytest.mark.parametrize("name", ["{}", "minute_{}", "{}_minute", "Minute_{}"])
def test_minutes_are_found_however_they_are_named(write: Write, name: str) -> None:
    minutes = ",".join(name.format(minute) for minute in (480, 481, 482))
    path = write(f"HashOwner,HashApp,HashFunction,Trigger,{minutes}", "o,a,f,http,1,2,3")
    trace = counted(path)
    assert (trace.format, trace.calls.tolist()) == ("azure2019", [1, 2, 3])


def test_columns_come_in_any_order_and_trigger_is_optional(write: Write) -> None:
    path = write("3,HashFunction,1,HashApp,2,HashOwner", "30,f,10,a,20,o", "3,g,1,a,2,o")
    assert counted(path).calls.tolist() == [11, 22, 33]


def test_owner_and_app_are_optional(write: Write) -> None:
    assert counted(write("HashFunction,1,2", "f,4,5")).calls.tolist() == [4, 5]


def test_a_minute_without_a_column_or_a_number_has_no_calls(write: Write) -> None:
    path = write("HashFunction,10,13,11", "f,1,,3", "g,1,5,")
    assert counted(path).calls.tolist() == [2, 3, 0, 5]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_line_ends_and_blank_lines_do_not_matter(write: Write, end: str, final: bool) -> None:
    path = write("", "HashFunction,1,2", "", "f,4,5", "  ", ",,", "g,1,1", end=end, final=final)
    assert counted(path).calls.tolist() == [5, 6]


def test_quotes_spaces_and_a_byte_order_mark_do_not_matter(write: Write) -> None:
    path = write('\ufeff"HashFunction", 1 ,"2"', '"f", 4 ,"5"')
    assert counted(path, "azure2019").calls.tolist() == [4, 5]


def test_counts_that_pandas_made_floats_are_whole_numbers(write: Write) -> None:
    assert counted(write("HashFunction,1,2", "f,4.0,5")).calls.tolist() == [4, 5]


def test_counted_trace_may_have_one_minute(write: Write) -> None:
    trace = counted(write("HashFunction,7", "f,120", "g,"))
    assert (trace.minutes, trace.invocations) == (1, 120)


def test_calls_are_added_up_by_bucket_of_functions(write: Write) -> None:
    path = write("HashFunction,HashApp,HashOwner,1,2", "f,a,o,1,0", "g,a,o,2,0", "h,a,o,4,8")
    bucket = {"o/a/f": 0, "o/a/g": 1, "o/a/h": 0}
    grid = list(counted(path).by_minute(2, bucket.__getitem__))
    assert grid == [(0, [5, 2]), (1, [8, 0])]


def test_a_directory_is_a_trace_of_days_with_gaps_between_numbers(write: Write) -> None:
    write("HashFunction,1440", "f,1", name="days/invocations.d01.csv")
    write("HashFunction,2,1", "f,5,7", name="days/invocations.d03.csv")
    path = write("HashFunction,Average", "f,1", name="days/durations.d01.csv").parent
    trace = counted(path)
    assert (trace.minutes, trace.invocations) == (1443, 13)
    assert [minute for minute, _ in trace.by_minute()] == [0, 1441, 1442]
    assert trace.calls[[0, 1441, 1442]].tolist() == [1, 7, 5]


def test_a_later_day_may_start_earlier_in_the_day(write: Write) -> None:
    write("HashFunction,1000", "f,1", name="days/invocations_a.csv")
    path = write("HashFunction,1", "f,2", name="days/invocations_b.csv").parent
    assert list(counted(path).by_minute()) == [(0, [1]), (441, [2])]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("HashFunction,1,2", "f,4"), ":2: 2 cells where the first row has 3"),
        (("HashFunction,1,2", "f,4,5,6"), ":2: 4 cells where the first row has 3"),
        (("HashFunction,1,2", "", "f,4,x"), ":3: minute 2 is 'x'; give a whole number"),
        (("HashFunction,1,2", "f,4,-5"), ":2: minute 2 is '-5'; give a whole number"),
        (("HashFunction,1,2", "f,4,1.5"), ":2: minute 2 is '1.5'; give a whole number"),
        (("HashFunction,1,2", "f,4,nan"), ":2: minute 2 is 'nan'; give a whole number"),
        (("HashFunction,1,2", f"f,4,{10**99}"), f":2: minute 2 is '1{'0' * 39}...'; give a"),
        (("HashFunction,1,2", "f,4,9999999999999"), ":2: minute 2 is '9999999999999'"),
        (("HashFunction,1,minute_1", "f,4,5"), ":1: minute 1 has two columns"),
        (("HashFunction,HashFunction,1", "f,g,4"), ":1: columns hashfunction and hashfunction"),
        (("HashFunction,99999999", "f,4"), ":1: minute 99999999 is more than ten years away"),
        (("HashFunction,Average,Count", "f,4,5"), ":1: no columns of minutes"),
        (("HashFunction,1,2",), ":1: a header and no rows"),
        (("HashFunction,1,2", "f,4,5", 'f,"4,5",6'), ":3: 4 cells where the first row has 3"),
        (("1,HashFunction,2", '"4,5",f,6'), ":2: 3 cells where the first row has 2"),
    ],
)
def test_error_in_a_counted_trace_is_said_with_its_line(
    write: Write, lines: tuple[str, ...], says: str
) -> None:
    path = write(*lines)
    with pytest.raises(Rejected) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}{says}")
    assert "\n" not in str(refused.value)


def test_a_file_without_functions_is_not_azure2019(write: Write) -> None:
    with pytest.raises(Rejected, match="no column HashFunction"):
        read_trace(write("1,2", "4,5"), "azure2019")


@pytest.mark.parametrize("dates", [("20190131", "20190201"), ("2019-01-31", "2019-02-01")])
def test_days_that_are_named_by_dates_follow_each_other(
    write: Write, dates: tuple[str, str]
) -> None:
    write("HashFunction,1,1440", "f,1,2", name=f"days/invocations_{dates[0]}.csv")
    path = write("HashFunction,1,1440", "f,3,4", name=f"days/invocations_{dates[1]}.csv").parent
    trace = read_trace(path)
    assert trace.minutes == 2 * 1440
    assert list(trace.by_minute()) == [(0, [1]), (1439, [2]), (1440, [3]), (2879, [4])]


def test_a_directory_without_invocations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"no invocations\*\.csv in this directory; give a file"):
        read_trace(tmp_path)
    trace = tmp_path / "calls.csv"
    trace.touch()
    with pytest.raises(Rejected, match=f"; do you mean {trace}"):
        read_trace(tmp_path)


def test_a_file_in_a_directory_is_one_day(write: Write) -> None:
    path = write("HashFunction,1441", "f,4", name="days/invocations1.csv")
    with pytest.raises(Rejected, match="each file is one day"):
        read_trace(path.parent)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_plain_counts_are_a_minute_per_line(write: Write, end: str, final: bool) -> None:
    trace = counted(write("3", "0", "", "7.0", "2", end=end, final=final))
    assert (trace.format, trace.calls.tolist()) == ("counts", [3, 0, 7, 2])
    assert not trace.names_functions


def test_plain_counts_may_have_a_header(write: Write) -> None:
    assert counted(write("Count", "3", "4")).calls.tolist() == [3, 4]


def test_counts_with_minutes_may_have_gaps_and_any_order(write: Write) -> None:
    assert counted(write("requests,minute", "5,12", "1,10")).calls.tolist() == [1, 0, 5]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("3", "x", "1"), ":2: the count is 'x'"),
        (("3", "-1"), ":2: the count is '-1'"),
        (("3", "1,2", "1"), ":2: 2 cells where the first row has 1"),
        (("minute,count", "1,2", "1,3"), ":3: minute 1 appears twice"),
        (("minute,count", "99999999,2"), ":2: minute 99999999 is more than ten years away"),
        (("count",), ":1: no counts"),
        (("calls,requests", "1,2"), ":1: columns calls and requests mean the same"),
        (("minute,number", "1,2"), ":1: no column of counts"),
    ],
)
def test_counts_that_are_wrong_are_refused(write: Write, lines: tuple[str, ...], says: str) -> None:
    path = write(*lines)
    with pytest.raises(Rejected) as refused:
        read_trace(path, "counts")
    assert str(refused.value).startswith(f"{path}{says}")


def test_quotes_from_some_line_on_leave_line_numbers_right(write: Write) -> None:
    path = write("HashFunction,1,2", "f,1,2", '"g\nh",1,2', "i,1,x")
    with pytest.raises(Rejected, match=r"trace\.csv:5: minute 2 is 'x'"):
        read_trace(path)
