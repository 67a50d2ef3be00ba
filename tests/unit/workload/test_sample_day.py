"""The trace that comes with `loadgen`, and the commands that name it."""

import re
from pathlib import Path

import pytest

import esg.workload
from esg.workload.traces.counted import CountedTrace
from esg.workload.traces.read import read_trace
from tests.support.paths import ROOT
from tests.support.sample_day import BURST, day

SAMPLE = Path(esg.workload.__file__).with_name("day.csv")


def test_the_file_is_what_the_rule_gives() -> None:
    assert SAMPLE.read_text("utf-8") == day()


def test_sample_trace_is_read_as_a_day_of_counts() -> None:
    trace = read_trace(SAMPLE)
    assert isinstance(trace, CountedTrace)
    assert (trace.format, len(trace.calls)) == ("counts", 1440)
    assert int(trace.calls.argmax()) in BURST


@pytest.mark.parametrize(
    "file",
    ["docs/loadgen.md", "docs/policies.md", "esg/cli/evaluation/emulate.py", "loadgen/command.py"],
)
def test_every_trace_in_an_example_is_there(file: str) -> None:
    named = re.findall(
        r"(?:loadgen|esg emulate) --trace ([\w./-]+)", (ROOT / file).read_text("utf-8")
    )
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
