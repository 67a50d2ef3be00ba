"""Tables of perf_analyzer and of Model Analyzer become measured profiles."""

import pytest

from esg.errors import Rejected
from esg.profiler.imported import imported_times, merged

PERF_ANALYZER = """\
Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,\
Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,\
p50 latency,p90 latency,p95 latency,p99 latency
1,9.12691,7,14590,26670,10,66908,5,4,95322,156045,156219,308755
2,20.4354,6,30675,10943,0,56337,0,20,79133,181886,194256,221519
"""
MODEL_ANALYZER = """\
Model,Batch,Concurrency,Model Config Path,Throughput (infer/sec),p99 Latency (ms),Avg Latency (ms)
resnet,1,2,resnet_config_default,120.5,19.2,16.1
resnet,1,1,resnet_config_default,70.1,15.3,14.2
resnet,4,1,resnet_config_default,150.2,30.5,26.4
other,1,1,other_config_default,10.0,99.0,98.0
"""


def test_perf_analyzer_tells_what_the_server_computed_at_the_least_load() -> None:
    (found,) = imported_times("b2.csv", PERF_ANALYZER, batch=2)
    assert (found.batch, found.time_ms, found.load) == (2, 66.923, 1)


def test_model_analyzer_tells_of_all_batch_sizes_of_a_model() -> None:
    found = imported_times("metrics.csv", MODEL_ANALYZER, model="resnet")
    assert [(time.batch, time.time_ms, time.column) for time in found] == [
        (1, 14.2, "Avg Latency (ms)"),
        (4, 26.4, "Avg Latency (ms)"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PERF_ANALYZER, "say its batch size, as in 4=x.csv"),
        (MODEL_ANALYZER, "several models (resnet, other); say which: --model"),
        ("", "a header and at least one row"),
        ("Batch,p50 latency\n1\n", "x.csv:2: 1 cells where the header has 2"),
        ("Batch,p50 latency\n0,5\n", "it must be from 1 to"),
        ("Batch,p50 latency\n1.5,5\n", "it must be from 1 to"),
        ("Batch,p50 latency\n1,soon\n", "p50 latency is 'soon', no number"),
        ("Batch,p50 latency\n1,nan\n", "must be a number from 0 on"),
        ("Batch,p50 latency\n1,0\n", "must be above 0"),
        ("Batch,Throughput\n1,5\n", "no column with times"),
    ],
)
def test_what_is_no_such_table_is_refused(text: str, words: str) -> None:
    with pytest.raises(Rejected) as refused:
        imported_times("x.csv", text)
    assert words in str(refused.value)


def test_a_batch_size_may_be_in_one_table_only() -> None:
    one = imported_times("b1.csv", PERF_ANALYZER, batch=1)
    with pytest.raises(Rejected, match="batch size 1 is in two tables"):
        merged([one, one])
