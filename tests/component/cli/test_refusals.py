"""Whatever is wrong with a command line: one line on stderr, nothing on stdout, exit code 2.

A row is a command line and the words that its error must have, in this order; "..." stands for any.
"""

import re
from pathlib import Path

import pytest

from tests.component.cli.conftest import Ran, Run

PLAN = "plan image-classification"

ESG = {
    "pln": "no such command 'pln'; did you mean 'plan'?",
    "profile shw": "no such command 'shw'; did you mean 'show'?",
    "--verson": "no such option: --verson...--version...",
    "plan image-clasification": "unknown application...; did you mean 'image-classification'?",
    "plan zebra": "unknown application 'zebra'; known: image-classification, ...",
    "plan one two": "...extra argument...two...; see esg plan --help",
    f"{PLAN} --slo-ms": "...'--slo-ms' requires an argument...",
    f"{PLAN} --slo 500": "no such option: --slo...--slo-ms...",
    f"{PLAN} --slo-ms soon": "--slo-ms: ...valid...; see esg plan --help",
    f"{PLAN} --slo-ms 0": "--slo-ms is 0; it must be greater than 0 ...",
    f"{PLAN} --slo-ms -3.5": "--slo-ms is -3.5; it must be greater than 0 ...",
    f"{PLAN} --slo-ms nan": "--slo-ms is nan; it must be greater than 0 ...",
    f"{PLAN} --slo-ms inf": "--slo-ms is inf; ...at most 86400000",
    f"{PLAN} --slo-ms 1e300": "--slo-ms is 1e+300; ...at most 86400000",
    f"{PLAN} --waited-ms -1": "--waited-ms is -1; it must be from 0 ...",
    f"{PLAN} --waited-ms nan": "--waited-ms is nan; it must be from 0 ...",
    f"{PLAN} --k 0": "--k is 0; it must be at least 1",
    f"{PLAN} --k 2.5": "--k: ...valid...; see esg plan --help",
    f"{PLAN} --queue 0": "--queue is 0; it must be at least 1",
    f"{PLAN} --group-size -1": "--group-size is -1; it must be at least 1",
    f"{PLAN} --engine astr": "unknown engine 'astr'; did you mean 'astar'?",
    f"{PLAN} --engine dijkstra": "unknown engine 'dijkstra'; known: frontier, astar",
    f"{PLAN} --stage segmentatoin": "...unknown stage...; did you mean 'segmentation'?",
    f"{PLAN} --stage deblur": "image-classification: unknown stage 'deblur'; known: super-re...",
    f"{PLAN} --json --k 0": "--k is 0; it must be at least 1",
    f"{PLAN} --catalog nowhere.toml": "nowhere.toml: no such file; correct --catalog ...",
    "apps --catalog .": ".: cannot be read: ...",
    "profile show": "missing argument 'FUNCTION'; see esg profile show --help",
    "profile show dept": "unknown function 'dept'; did you mean 'depth'?",
    "profile show depth --batch 0": "--batch is 0; it must be at least 1",
    "profile show depth --vcpus 5": "--vcpus is 5; depth is profiled with 1, 2, 3, 4, 6, 8, 12, 16",
}

LOADGEN = {
    "--dry-run": "nothing says when requests come; give --rate light, --trace FILE or ...",
    "--rate hevy --dry-run": "unknown rate 'hevy'; did you mean 'heavy'?...",
    "--rate x --dry-run": "unknown rate 'x'; known: heavy, normal, light; or give a number...",
    "--rate 17 --dry-run": "rate 17: say per what, as in 17/s or 17/min",
    "--rate heavy --dry-run --requests 0": "--requests is 0; it must be at least 1",
    "--rate heavy --dry-run --duration 0": "--duration is 0; it must be greater than 0 ...",
    "--rate heavy --dry-run --duration nan": "--duration is nan; it must be greater than 0 ...",
    "--rate heavy --dry-run --requests 1 --duration 1": "--requests and --duration ...one of them",
    "--rate heavy --dry-run --seed x": "--seed: ...valid...; see loadgen --help",
    "--rate heavy --dry-run --save-arrivals no/folder/a.csv": "no/folder/a.csv: cannot be ...",
    "--rate heavy --dry-run --save-arrivals /dev/null": "/dev/null: is not a regular file; ...",
    "--rate heavy --dry-run --catalog nowhere.toml": "nowhere.toml: no such file; ...",
    "--rate heavy --poisson --burst --dry-run": "--poisson and --burst ...one of them",
    "--rate heavy --scale 2 --dry-run": "--scale is about a trace; name one with --trace, ...",
    "--rate heavy --mix phot=1 --dry-run": "mix: unknown application 'phot'; known: ...",
    "--trace nowhere.csv --dry-run": "nowhere.csv: ...",
    "--trace pyproject.toml --format azur --dry-run": "unknown format 'azur'; ...",
    "--arrivals nowhere.csv --dry-run": "nowhere.csv: ...",
    "--rate heavy --payload . --payload-scale 2": "--payload-scale is for generated pictures; ...",
    "--rate heavy --workers 0": "--workers is 0; it must be at least 1",
    "--rate heavy --max-error-rate 2": "--max-error-rate is 2; it must be from 0 to 1",
}


def assert_refused(ran: Ran, words: str, code: int = 2) -> None:
    pattern = ".*".join(map(re.escape, words.split("...")))
    assert re.fullmatch(f"error: {pattern}\n", ran.err), ran.err
    assert ran.out == ""
    assert ran.code == code


@pytest.mark.parametrize(("line", "words"), ESG.items())
def test_esg_refuses_in_one_line(esg: Run, line: str, words: str) -> None:
    assert_refused(esg(*line.split()), words)


@pytest.mark.parametrize(("line", "words"), LOADGEN.items())
def test_loadgen_refuses_in_one_line(load: Run, line: str, words: str) -> None:
    assert_refused(load(*line.split()), words)


def test_a_catalog_that_is_wrong_is_named(esg: Run, tmp_path: Path) -> None:
    path = tmp_path / "catalog.toml"
    path.write_text("[cluster]\nnodes = 0\nslice_memory_mb = 1000\n")
    assert_refused(esg("apps", "--catalog", path), f"{path}: cluster.nodes: is 0; ...")
    path.write_bytes(b"\xff\xfe")
    assert_refused(esg("apps", "--catalog", path), f"{path}: ...")


def test_the_environment_names_the_catalog(esg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESG_CATALOG", "nowhere.toml")
    assert_refused(esg("apps"), "nowhere.toml: no such file; correct --catalog (or ESG_CATALOG)...")


def test_a_function_that_several_stages_run_does_not_name_a_stage(esg: Run, street: Path) -> None:
    ran = esg("plan", "tangle", "--stage", "depth", "--catalog", street)
    assert_refused(ran, "'depth' runs in the stages c, e, f; name one of them")


def test_control_characters_do_not_reach_the_terminal(esg: Run) -> None:
    assert_refused(esg("plan", "\x1b[31mred\nname"), r"unknown application '\x1b[31mred\nname'...")
