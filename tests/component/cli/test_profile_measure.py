"""`esg profile --slices`: a real node, with slices that take the times of a small catalog."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from esg.cli import program
from esg.console.entry import run_app
from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.local.supervisor import MeshOptions
from esg.profiler import node_under_test
from esg.profiler.grid import QUICK, SMALLEST
from esg.profiler.record import read
from esg.units import ms, to_ms
from tests.component.cli.conftest import Run
from tests.support.integration_catalog import TIMES_MS, write_catalog
from tests.support.waiting import LIMIT_S, wait_until

ESG = Path(sys.executable).with_name("esg")
NAMES = "resize,detect,label"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalog(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def out(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was measured: batches of one and two."""
    folder = tmp_path_factory.mktemp("measured") / "here"
    assert run_app(program.app, "esg", arguments(source, folder, "1,2")) == 0
    return folder


def arguments(source: Path, out: Path, batches: str, **changes: str) -> list[str]:
    given = {
        "slices": "emulated:2",
        "functions": NAMES,
        "batches": batches,
        "vcpus": "1",
        "catalog": str(source),
        "out": str(out),
        **changes,
    }
    options = [text for name, value in given.items() for text in (f"--{name}", value)]
    return ["profile", "--quick", *options]


def document(ran: Any) -> Any:
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_the_times_are_those_that_tasks_take(out: Path) -> None:
    """Never less than the slices take, and not beyond all measure more."""
    profile = load_catalog(out / "catalog.toml").functions["detect"].profile
    for batch in (1, 2):
        slept_ms = TIMES_MS["detect"][batch, 1, 1]
        assert slept_ms <= profile.time_us_of(Config(batch, 1, 1)) / 1000 < slept_ms + 500


def test_the_phases_are_those_of_tasks(out: Path) -> None:
    """What the slices take is spent there, and little else is spent at all."""
    profile = load_catalog(out / "catalog.toml").functions["detect"].profile
    for batch in (1, 2):
        phases = profile.phases_of(Config(batch, 1, 1))
        assert phases.slices_us >= ms(TIMES_MS["detect"][batch, 1, 1])
        assert phases.before_us < ms(500)
        assert phases.after_us < ms(500)


def test_every_run_is_recorded_with_its_phases(out: Path) -> None:
    record = read(out)
    assert record is not None
    for measured in record.functions.values():
        for cell in measured.feasible:
            assert len(cell.phased) == QUICK.repetitions
            assert cell.joint_us == []  # there is no handler


def test_cold_starts_and_sizes_are_measured_too(out: Path) -> None:
    catalog = load_catalog(out / "catalog.toml")
    for function in catalog.functions.values():
        assert function.cold_start_us >= 10_000
        assert function.input_bytes == pytest.approx(100_000, rel=0.02)
    assert (catalog.cluster.nodes, catalog.cluster.vgpus) == (1, 2)


def test_config_that_cannot_run_is_not_in_the_profile(out: Path) -> None:
    """The catalog that the slices go by has no pairs of `resize`."""
    assert load_catalog(out / "catalog.toml").functions["resize"].profile.max_batch == 1
    record = read(out)
    assert record is not None
    cell = record.functions["resize"].cell(Config(2, 1, 1))
    assert cell is not None
    assert "no config" in cell.failure


def test_the_catalog_is_planned_and_emulated_with_as_it_is(out: Path, esg: Run) -> None:
    catalog = out / "catalog.toml"
    planned = document(esg("plan", "photo", "--catalog", catalog, "--json"))
    assert planned["plans"]
    ran = esg("emulate", "--requests", 20, "--rate", "2/s", "--catalog", catalog, "--json")
    assert document(ran)["results"][0]["requests"] == 20


def test_the_document_of_what_was_measured_tells_the_time_apart(
    source: Path, out: Path, esg: Run
) -> None:
    found = document(esg(*arguments(source, out, "1,2"), "--json"))
    phases = load_catalog(out / "catalog.toml").functions["detect"].profile.phases_of(SMALLEST)
    figures = found["functions"]["detect"]
    assert figures["alone_ms"] == to_ms(phases.total_us)
    assert figures["alone_slices_ms"] == to_ms(phases.slices_us)
    assert figures["alone_after_ms"] == to_ms(phases.after_us)


def test_a_profile_says_where_it_comes_from(out: Path, esg: Run) -> None:
    shown = document(esg("profile", "show", "detect", "--catalog", out / "catalog.toml", "--json"))
    for words in ("kind: measured", "slices: emulated:2", "device: ", "date: ", "esg: "):
        assert words in shown["provenance"]


def test_measuring_goes_on_where_it_ended(source: Path, out: Path, esg: Run) -> None:
    before = read(out)
    ran = esg(*arguments(source, out, "1,2,4", functions="detect"), "--json")
    assert document(ran)["functions"]["detect"]["configs"] == 5
    after = read(out)
    assert before is not None
    assert after is not None
    for cell in before.functions["detect"].cells:
        assert after.functions["detect"].cell(cell.config) == cell
    four = load_catalog(out / "catalog.toml").functions["detect"].profile.max_batch
    assert four == 4


def test_ctrl_c_keeps_what_was_measured_and_says_so(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(
        [ESG, *arguments(source, out, "1", functions="label,slow")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until((out / "label.toml").exists)  # so it is at `slow`, which does not end
            process.send_signal(signal.SIGINT)
            said, err = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, "")
    assert err == "stopping; what was measured is kept, and the same command continues\n"
    record = read(out)
    assert record is not None
    assert record.functions["label"].cells


async def test_a_task_in_phases_waits_for_nothing_on_a_bench(source: Path, tmp_path: Path) -> None:
    options = MeshOptions(nodes=1, catalog=source, more={"invoker": {"slices": "emulated:2"}})
    async with node_under_test.Bench(options, tmp_path / "node") as bench:
        await bench.run("label", SMALLEST, [[b"payload"]])
        for _ in range(3):
            ran = await bench.run("label", SMALLEST, [[b"payload"]], phased=True)
            assert ran.loading_us == 0
            assert ran.running_us == ran.phases.total_us
            assert ran.phases.slices_us >= ms(TIMES_MS["label"][SMALLEST[:3]])


async def test_a_node_that_is_told_to_stop_does_not_finish_what_it_has_begun(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_under_test, "STOP_LIMIT_S", 10**6)
    monkeypatch.setenv("ESG_DRAIN_S", str(10**6))
    invoker = {"slices": "emulated:2", "infer_timeout_s": 10**6}
    options = MeshOptions(nodes=1, catalog=source, more={"invoker": invoker})
    told: list[str] = []

    async def endless() -> None:
        node = tmp_path / "node"
        async with node_under_test.Bench(options, node, lambda: told.append("stopping")) as bench:
            alone = Config(1, 1, 1)
            slow = asyncio.create_task(bench.run("slow", alone, [[b"payload"]], slices=[0]))
            await bench.run("label", alone, [[b"payload"]], slices=[1])
            begun.set()  # orders are heard one after the other
            await slow

    async with asyncio.timeout(LIMIT_S):
        begun = asyncio.Event()
        running = asyncio.create_task(endless())
        await begun.wait()
        running.cancel()
        await asyncio.wait({running})
    assert running.cancelled()
    assert told == ["stopping"]


def test_profile_without_a_whole_application_says_what_was_written_and_why_no_catalog(
    source: Path, tmp_path: Path, esg: Run
) -> None:
    here = tmp_path / "here"
    ran = esg(*arguments(source, here, "1", functions="label"))
    assert (ran.code, ran.err) == (0, "")
    assert f"Written: {here / 'label.toml'}, with its table" in ran.out
    told = " ".join(ran.out.split())
    assert "no application has all of its functions measured" in told
    assert "Left out" not in told
    again = document(esg(*arguments(source, here, "1", functions="label"), "--json"))
    assert (again["catalog"], again["profiles"]) == (None, [str(here / "label.toml")])
    assert sorted(p.name for p in here.iterdir()) == ["label.csv", "label.toml", "measured.json"]


def test_a_catalog_is_named_with_what_it_leaves_out(source: Path, out: Path, esg: Run) -> None:
    ran = esg(*arguments(source, out, "1,2"))
    assert (ran.code, ran.err) == (0, "")
    assert f"Written: {out / 'catalog.toml'} (" in ran.out
    assert ran.out.count("Left out: ") == 3
    found = document(esg(*arguments(source, out, "1,2"), "--json"))
    assert found["catalog"] == str(out / "catalog.toml")
    assert found["profiles"] == [str(out / f"{name}.toml") for name in NAMES.split(",")]


def test_figures_of_other_slices_do_not_mix(source: Path, out: Path, esg: Run) -> None:
    ran = esg(*arguments(source, out, "1", slices="emulated:1"))
    assert ran.code == 2
    assert "name another folder with --out, or begin anew with --restart" in ran.err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"functions": "detekt"}, "did you mean 'detect'"),
        ({"batches": "2,4"}, "name 1 too"),
        ({"batches": "1,x"}, "--batches is '1,x'"),
        ({"vgpus": "1,3"}, "--vgpus 3: the node has 2"),
        ({"payload": "/nowhere.jpg"}, "--payload: /nowhere.jpg"),
        ({"slices": "gpu"}, "slices"),
    ],
)
def test_esg_profile_refuses_options_that_make_no_sense(
    source: Path, tmp_path: Path, esg: Run, changes: dict[str, str], message: str
) -> None:
    batches = changes.pop("batches", "1")
    ran = esg(*arguments(source, tmp_path / "out", batches, **changes))
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_esg_profile_compares_two_catalogs(source: Path, out: Path, esg: Run) -> None:
    found = document(esg("profile", "compare", source, out / "catalog.toml", "--json"))
    assert found["only_in_a"] == ["depth", "slow", "tag"]
    ratios = [one["ratio"] for one in found["differences"] if one["ratio"] is not None]
    assert all(ratio >= 1 for ratio in ratios)
    assert ratios == sorted(ratios, reverse=True)
    table = esg("profile", "compare", source, out / "catalog.toml", "--rows", 2)
    assert (table.code, table.err) == (0, "")
    assert "2 of them below" in table.out
    assert "Only in A: depth, slow and tag." in table.out
