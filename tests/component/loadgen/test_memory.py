"""Large files are streamed: memory does not grow with their number of rows."""

import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from esg.workload.mix import Mix
from esg.workload.saved import read_arrivals
from esg.workload.trace_window import Shaping, from_trace
from esg.workload.traces.read import read_trace

MIX = Mix.uniform(["a", "b", "c"])


def peak_kb(work: Callable[[], object]) -> float:
    work()  # once before, for imports and caches
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


def write_rows(path: Path, header: str, rows: Iterable[str]) -> Path:
    with path.open("w") as file:
        file.write(header + "\n")
        file.writelines(f"{row}\n" for row in rows)
    return path


def consume(path: Path, shaping: Shaping) -> None:
    deque(from_trace(read_trace(path), MIX, 1, shaping), maxlen=0)


def test_a_trace_with_more_functions_takes_no_more_memory(tmp_path: Path) -> None:
    header = ",".join(["HashFunction", *map(str, range(1, 1441))])
    cells = ",".join(["0,1,0,0,0,0,0,0,0,0"] * 144)

    def peak(functions: int) -> float:
        rows = (f"{number:064x},{cells}" for number in range(functions))
        path = write_rows(tmp_path / "trace.csv", header, rows)
        shaping = Shaping(by_function=True, duration_us=60_000_000)
        return peak_kb(lambda: consume(path, shaping))

    small, large = peak(30), peak(600)
    assert large < small + 100  # the large file has 1.7 MB, and 7 MB as cells


def test_a_minute_with_more_calls_takes_no_more_memory(tmp_path: Path) -> None:
    def peak(calls: int, by_function: bool) -> float:
        path = write_rows(tmp_path / "trace.csv", "HashFunction,1", [f"f,{calls}", f"g,{calls}"])
        return peak_kb(lambda: consume(path, Shaping(by_function=by_function)))

    for by_function in (True, False):
        assert peak(5_000, by_function) < peak(100, by_function) + 20


def test_calls_out_of_order_are_sorted_without_keeping_them(tmp_path: Path) -> None:
    def peak(calls: int) -> float:
        rows = (f"f{number % 7},{number * 7919 % calls}.5,0.25" for number in range(calls))
        path = write_rows(tmp_path / "trace.csv", "func,end_timestamp,duration", rows)
        assert not getattr(read_trace(path), "in_order", True)
        return peak_kb(lambda: consume(path, Shaping(by_function=True)))

    assert peak(8_000) < peak(500) + 50


def test_saved_arrivals_are_streamed(tmp_path: Path) -> None:
    def peak(number: int) -> float:
        rows = (f"{at_us},a" for at_us in range(number))
        path = write_rows(tmp_path / "arrivals.csv", "at_us,application", rows)
        return peak_kb(lambda: deque(read_arrivals(path), maxlen=0))

    assert peak(8_000) < peak(500) + 50
