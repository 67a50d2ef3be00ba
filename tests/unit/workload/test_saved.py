"""Arrivals that are written and read again."""

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esg.errors import Rejected
from esg.workload.arrivals import Arrival
from esg.workload.mix import parse_mix
from esg.workload.rates import poisson
from esg.workload.saved import read_arrivals
from tests.support.trace_files import Write, save_arrivals

names = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 10**15)), st.lists(names, min_size=1))
def test_saved_arrivals_are_read_exactly(
    tmp_path_factory: pytest.TempPathFactory, instants: list[int], applications: list[str]
) -> None:
    arrivals = [
        Arrival(at_us, applications[index % len(applications)])
        for index, at_us in enumerate(sorted(instants))
    ]
    path = tmp_path_factory.mktemp("saved") / "arrivals.csv"
    save_arrivals(path, arrivals)
    assert list(read_arrivals(path)) == arrivals


def test_a_file_has_a_header_and_a_row_per_arrival(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    save_arrivals(path, [Arrival(0, "a"), Arrival(1500, "b,c")])
    assert path.read_bytes() == b'at_us,application\n0,a\n1500,"b,c"\n'


def test_generated_arrivals_survive(tmp_path: Path) -> None:
    arrivals = list(islice(poisson("heavy", parse_mix("a=1,b=2"), 4), 1_000))
    path = tmp_path / "arrivals.csv"
    save_arrivals(path, iter(arrivals))
    assert list(read_arrivals(path, known=["a", "b"])) == arrivals


def test_edited_files_are_read_too(write: Write) -> None:
    path = write("\ufeffapplication, at_us", "", "a,0", "b,5", end="\r\n", final=False)
    assert list(read_arrivals(path)) == [Arrival(0, "a"), Arrival(5, "b")]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("at_us,application", "1" + "0" * 400 + ",a"), ":2: at_us is '1000"),
        (("at_us,application", "5,a", "", "4,a"), ":4: at_us goes back from 5 to 4; sort the rows"),
        (("at_us,application", "-1,a"), ":2: at_us is -1"),
        (("at_us,application", "1.5,a"), ":2: at_us is '1.5'; give whole microseconds"),
        (("at_us,application", ",a"), ":2: at_us is ''"),
        (("at_us,application", "1,"), ":2: application ''"),
        (("at_us,application", "1"), ":2: 1 cells where the header has 2"),
        (("at_us,application", "1,a,2"), ":2: 3 cells where the header has 2"),
        (("at_us,application", "1,imaeg"), ":2: unknown application 'imaeg'; did you mean 'image'"),
        (("at_us,application,slo", "1,a,2"), ":1: the columns are 'at_us,application,slo';"),
        (("at_us,at_us", "1,2"), ":1: the columns are 'at_us,at_us';"),
        (("0,a",), ":1: the columns are '0,a'; saved arrivals have at_us,application"),
        (("",), ":1: the columns are '';"),
    ],
)
def test_a_file_that_is_wrong_is_refused_before_the_first_arrival(
    write: Write, lines: tuple[str, ...], says: str
) -> None:
    path = write(*lines)
    with pytest.raises(Rejected) as refused:
        read_arrivals(path, known=["a", "image"])
    assert str(refused.value).startswith(f"{path}{says}")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="no such file"):
        read_arrivals(tmp_path / "none.csv")


def test_arrivals_that_could_not_be_read_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    with pytest.raises(Rejected, match="no line breaks"):
        save_arrivals(path, [Arrival(0, "a"), Arrival(0, "a\nb")])
    assert not path.exists()
    with pytest.raises(Rejected, match="cannot be written"):
        save_arrivals(tmp_path / "none" / "arrivals.csv", [])
