"""What `esg emulate` refuses, and with which words."""

from pathlib import Path

import pytest

from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused

REFUSED = {
    "--setting strict": "unknown setting 'strict'; did you mean 'strict-light'?",
    "--setting fast": "unknown setting 'fast'; known: strict-heavy, strict-normal, ...",
    "--policy esgg": "--policy: unknown policy 'esgg'; did you mean 'esg'?",
    "--policy esg,": "--policy: unknown policy ''; known: apex, esg, ...",
    "--policy esg,orion,esg": "--policy: 'esg' is named twice; name it once",
    "--slo-scale 0": "--slo-scale is 0; it must be greater than 0 ...",
    "--slo-scale -1": "--slo-scale is -1; it must be greater than 0 ...",
    "--slo-scale nan": "--slo-scale is nan; it must be greater than 0 ...",
    "--slo-scale 1e9": "--slo-scale is 1e+09; ...at most 1000",
    "--rate hevy": "unknown rate 'hevy'; did you mean 'heavy'?...",
    "--rate 0/s": "rate '0/s': give a rate above 0 ...",
    "--rate seventeen": "unknown rate 'seventeen'; known: heavy, normal, light; or give a num...",
    "--rate 17": "rate 17: say per what, as in 17/s or 17/min",
    "--nodes 0": "--nodes is 0; it must be at least 1",
    "--vcpus 0": "--vcpus is 0; it must be at least 1",
    "--vgpus -2": "--vgpus is -2; it must be at least 1",
    "--nodes 1000000": "--nodes is 1000000; it must be at most 10000",
    "--vgpus 1000000": "--vgpus is 1000000; it must be at most 10000",
    "--nodes 10000 --vgpus 10000": "10000 nodes x 10000 vGPUs are 100000000 vGPUs; ...at most ...",
    "--seeds 1000000": "--seeds is 1000000; it must be at most 10000",
    "--journal a --trace-out ./a": "--journal and --trace-out are the same file, a; name ...",
    "--nodes two": "--nodes: ...valid...; see esg emulate --help",
    "--requests 99999999999999999999": "--requests is 99999999999999999999; ...at most 1000000000",
    "--without holding": "--without is about policy apex; name it with --policy",
    "--remote-delay-ms -1": "--remote-delay-ms is -1; it must be from 0 ...",
    "--remote-mb-per-s 0": "--remote-mb-per-s is 0; it must be greater than 0 ...",
    "--requests 0": "--requests is 0; it must be at least 1",
    "--duration 0": "--duration is 0; it must be greater than 0 ...",
    "--duration 1e-6": "no request comes in this time; give a longer one",
    "--duration 1e-6 --seeds 2": "no request comes in this time; give a longer one",
    "--duration 0.016 --seeds 6": "no request comes in this time with seed 3; give a longer one",
    "--requests 5 --duration 5": "--requests and --duration are two ways to stop; give one of them",
    "--seed 1 --seeds 2": "--seed and --seeds are two ways to choose; give one of them",
    "--seeds 0": "--seeds is 0; it must be at least 1",
    "--k 0": "--k is 0; it must be at least 1",
    "--group-size 0": "--group-size is 0; it must be at least 1",
    "--engine astr": "--engine: unknown engine 'astr'; did you mean 'astar'?",
    "--noise -1": "--noise is -1; it must be from 0 to 100",
    "--overhead guessed": "unknown overhead 'guessed'; known: none, counted, measured",
    "--search-steps-per-ms 0": "--search-steps-per-ms is 0; it must be at least 1",
    "--workers 0": "--workers is 0; it must be at least 1",
    "--format counts": "--format is about a trace; name one with --trace, or leave it out",
    "--trace nowhere.csv": "nowhere.csv...",
    "--journal a.journal --seeds 2": "--journal is about one run; name one policy and one seed",
    "--journal a.journal --policy esg,orion": "--journal is about one run; ...",
    "--trace-out a.json --policy esg,orion": "--trace-out is about one run; ...",
    "--journal no/folder/a.journal": "no/folder/a.journal: cannot be written: ...",
    "--trace-out /dev/null": "/dev/null: is not a regular file; name another one",
    "--catalog nowhere.toml": "nowhere.toml: no such file; correct --catalog ...",
    "strict-light": "...extra argument...strict-light...; see esg emulate --help",
}


def test_empty_rate_is_refused(esg: Run) -> None:
    assert_refused(esg("emulate", "--rate", "", "--requests", 3), "unknown rate ''; ...")


@pytest.mark.parametrize(("line", "words"), REFUSED.items())
def test_esg_emulate_refuses_in_one_line(esg: Run, line: str, words: str) -> None:
    assert_refused(esg("emulate", *line.split()), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "...trace.csv: empty; give a trace"),
        ("minute,count\n0,many\n", "...trace.csv:2: ...many...; give a whole number ..."),
        ("minute,count\n0,-3\n", "...trace.csv:2: ...-3...; give a whole number ..."),
        ("what,is,this\n1,2,3\n", "...trace.csv:1: cannot tell the format: ..."),
        ("minute,count\n0,0\n", "...trace.csv: no request comes in it; name another one"),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("--policy", "esg,orion"), ("--duration", "5")])
def test_a_malformed_trace_is_refused_by_its_line(
    esg: Run, tmp_path: Path, content: str, words: str, arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(content, "utf-8")
    assert_refused(esg("emulate", "--trace", path, *arguments), words)


def test_a_time_before_the_first_request_of_a_trace_is_too_short(esg: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("minute,count\n0,0\n1,9\n", "utf-8")
    ran = esg("emulate", "--trace", path, "--duration", 5)
    assert_refused(ran, "no request comes in this time; give a longer one")


def test_a_rate_at_which_nothing_comes_is_too_low(esg: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("minute,count\n0,3\n", "utf-8")
    ran = esg("emulate", "--trace", path, "--rate", "0.001/s")
    assert_refused(ran, "...trace.csv: no request comes at the rate 0.001/s; give a higher one")


@pytest.mark.parametrize("option", ["--journal", "--trace-out"])
def test_no_output_takes_the_place_of_the_trace(esg: Run, tmp_path: Path, option: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("minute,count\n0,5\n", "utf-8")
    ran = esg("emulate", "--trace", path, option, tmp_path / "." / "trace.csv")
    assert_refused(
        ran, f"--trace and {option} are the same file, ...trace.csv; name different ones"
    )
    assert path.read_text("utf-8") == "minute,count\n0,5\n"
