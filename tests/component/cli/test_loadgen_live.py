"""`loadgen` sending: what it prints, writes and returns, against a gateway that does as told."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esg.console import training as console_training
from esg.core.catalog.model import Catalog
from esg.loadgen import command
from esg.loadgen.record import SentRecord
from esg.protos import gateway_v1_pb2 as public
from esg.workload.arrivals import Arrival
from esg.workload.saved import read_arrivals
from tests.component.cli.conftest import Ran, Run
from tests.support.counting_gateway import APPLICATIONS, Gateway, done, refused, serving
from tests.support.trace_files import save_arrivals
from tests.support.waiting import LIMIT_S

LOADGEN = Path(sys.executable).with_name("loadgen")
HOUR_US = 3_600_000_000


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving(Gateway()) as gateway:
        yield gateway


def sent(load: Run, gateway: Gateway, *more: object) -> Ran:
    return load("--rate", "500/s", "--requests", 20, "--gateway", gateway.address, *more)


def test_the_table_has_every_application_and_the_exit_code_is_0(
    load: Run, gateway: Gateway
) -> None:
    ran = sent(load, gateway)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("500/s, seed 0: 20 requests sent in ")
    for name in (*APPLICATIONS, "all"):
        assert f"\n{name} " in ran.out
    assert "100.0%" in ran.out
    assert " after the plan" in " ".join(ran.out.split())  # wherever the line breaks
    assert len(gateway.got) == 20


def test_pictures_are_generated_at_a_hundredth_of_the_catalogs_sizes(
    load: Run, gateway: Gateway
) -> None:
    sent(load, gateway)
    sizes = {asked.application: len(asked.payload) for asked in gateway.got}
    assert sizes == pytest.approx(
        {"image-classification": 27_000, "depth-recognition": 11_000}, rel=0.02
    )
    gateway.got.clear()
    sent(load, gateway, "--payload-scale", 1, "--requests", 4)
    assert max(len(asked.payload) for asked in gateway.got) > 1_000_000


def test_the_document_says_it_all(load: Run, gateway: Gateway) -> None:
    ran = sent(load, gateway, "--json")
    assert ran.err == ""
    document = json.loads(ran.out)
    assert (document["sent"], document["requests"], document["failed"]) == (20, 20, 0)
    assert document["slo_hit_rate"] == 1.0
    assert document["cost_usd"] == pytest.approx(0.02)
    assert document["batched_share"] == 1.0
    assert document["interrupted"] is False
    assert document["emulated"] is None
    assert set(document["applications"]) == set(APPLICATIONS)
    assert 0 <= document["sender_late_ms"]["p50"] <= document["sender_late_ms"]["most"]
    assert document["plan"]["rate"] == "500/s"


def test_csv_file_has_a_row_for_every_request(load: Run, gateway: Gateway, tmp_path: Path) -> None:
    gateway.answer = lambda asked: refused(asked) if len(gateway.got) % 2 else done(asked)
    path, planned = tmp_path / "rows.csv", tmp_path / "planned.csv"
    sent(load, gateway, "--workers", 2, "--csv", path, "--save-arrivals", planned)
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(SentRecord._fields)
    found = sorted((SentRecord(*row) for row in rows), key=lambda record: int(record.number))
    assert [Arrival(int(r.at_us), r.application) for r in found] == list(read_arrivals(planned))
    for record in found:
        if record.outcome == "done":
            assert (record.in_time, record.batches, record.nodes) == ("1", "2", "node0")
        else:
            assert (record.outcome, record.why) == ("overloaded", "the mesh is full")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_report_is_one_page(load: Run, gateway: Gateway, tmp_path: Path) -> None:
    ran = sent(load, gateway, "--html", tmp_path / "report.html")
    assert ran.code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "Latency over time" in page


def test_a_reader_who_stops_reading_loses_no_file(gateway: Gateway, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    process = subprocess.Popen(
        [LOADGEN, "--rate=500/s", "--requests=20", "--gateway", gateway.address, "--html", page],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.wait(LIMIT_S)
    assert page.exists()


def test_report_without_plotly_is_refused_before_anything_is_sent(
    load: Run, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("loadgen.report.page", "loadgen.report.figures", "reporting.page"):
        monkeypatch.delitem(sys.modules, f"esg.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "plotly", None)
    ran = sent(load, gateway, "--html", tmp_path / "report.html")
    needed = """loadgen needs the extra "evaluation" (plotly is missing)"""
    assert (ran.code, ran.err) == (2, f"error: {needed}: pip install 'esg-mesh[evaluation]'\n")
    assert gateway.got == []


def test_too_many_failures_are_exit_code_1(load: Run, gateway: Gateway) -> None:
    def every_fifth_refused(asked: public.SubmitRequest) -> public.Reply:
        number = int(asked.request_id.rpartition("-")[2])
        return refused(asked) if number % 5 == 0 else done(asked)

    gateway.answer = every_fifth_refused
    ran = sent(load, gateway)
    assert ran.code == 1
    assert "4 x the mesh is full" in ran.out
    assert sent(load, gateway, "--max-error-rate", 0.2).code == 0
    assert sent(load, gateway, "--max-error-rate", 0.19).code == 1


def test_the_emulators_figures_stand_beside_the_live_ones(load: Run, gateway: Gateway) -> None:
    ran = sent(load, gateway, "--emulate")
    assert ran.code == 0
    assert "emul." in ran.out
    told = json.loads(sent(load, gateway, "--emulate", "--json").out)["emulated"]
    assert told["requests"] == 20
    assert set(told["applications"]) <= set(APPLICATIONS)


def test_mesh_that_cannot_be_emulated_is_refused_before_anything_is_sent(
    load: Run, gateway: Gateway
) -> None:
    gateway.nodes = 0
    ran = sent(load, gateway, "--emulate")
    assert (ran.code, ran.out, gateway.got) == (2, "", [])
    assert ran.err.startswith("error: --emulate: the mesh has no nodes that could be emulated")


def test_configs_learnt_for_the_emulation_fit_the_nodes_of_the_mesh(
    load: Run, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(seen: Catalog, **_: object) -> dict[str, Any]:
        return {
            name: {
                stage.name: max(stage.function.profile.configs) for stage in each.stages.values()
            }
            for name, each in seen.applications.items()
        }

    monkeypatch.setattr(console_training, "trained_configs", train)
    gateway.policy, gateway.vcpus = "aquatope", 2
    ran = sent(load, gateway, "--emulate", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["emulated"]["requests"] == 20


def test_ctrl_c_in_the_emulation_leaves_what_was_measured(
    load: Run, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_emulated", interrupted)
    ran = sent(load, gateway, "--emulate", "--html", tmp_path / "page.html")
    assert ran.code == 130
    assert "20 requests sent" in ran.out
    assert "ended by Ctrl-C" not in ran.out
    assert "ended by Ctrl-C" not in (tmp_path / "page.html").read_text("utf-8")
    ran = sent(load, gateway, "--emulate", "--json")
    assert ran.code == 130
    assert json.loads(ran.out)["interrupted"] is False


def test_an_unknown_application_is_refused_before_anything_is_sent(
    load: Run, gateway: Gateway
) -> None:
    ran = sent(load, gateway, "--mix", "background-elimination=1")
    assert ran.code == 2
    assert ran.err.startswith("error: mix: unknown application 'background-elimination'; known: ")
    assert gateway.got == []


def test_an_input_whose_size_nobody_knows_is_refused(
    load: Run, gateway: Gateway, street: Path, tmp_path: Path
) -> None:
    ran = sent(load, gateway, "--catalog", street)
    assert ran.code == 2
    assert "begins with super-resolution" in ran.err
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.png").write_bytes(b"one")
    ran = sent(load, gateway, "--catalog", street, "--payload", tmp_path / "pictures")
    assert ran.code == 0
    assert {asked.payload for asked in gateway.got} == {b"one"}


def test_requests_that_nobody_answers_are_failures(load: Run, gateway: Gateway) -> None:
    gateway.answer = lambda asked: None
    ran = sent(load, gateway, "--wait", 0.2, "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["errors"] == {"no answer by the time loadgen ended": 20}


def test_ctrl_c_waits_for_what_is_in_flight_and_prints_the_summary(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.answer, gateway.holds = (lambda asked: None), 2
    path, rows = tmp_path / "arrivals.csv", tmp_path / "rows.csv"
    name = next(iter(APPLICATIONS))
    save_arrivals(path, [Arrival(0, name), Arrival(1, name), Arrival(HOUR_US, name)])
    process = subprocess.Popen(
        [LOADGEN, "--arrivals", path, "--gateway", gateway.address, "--csv", rows],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        gateway.has_got(2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everyone hears it
        gateway.release()
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (130, "")
    assert "2 requests sent" in out
    assert "; ended by Ctrl-C" in out
    assert "no answer" not in out
    assert len(rows.read_text().splitlines()) == 3


def test_rate_beyond_the_mesh_is_told_before_it_is_sent(load: Run, gateway: Gateway) -> None:
    gateway.nodes = 2
    ran = sent(load, gateway)
    assert (ran.code, len(gateway.got)) == (0, 20)  # it is sent all the same
    assert ran.err.startswith("note: 500/s is beyond this mesh: 2 nodes with 32 vCPUs and 14 vGPUs")
    assert "--rate 80% is a share of what it can carry" in ran.err


def test_share_is_one_of_what_the_mesh_can_carry(load: Run, gateway: Gateway) -> None:
    def rate(share: str) -> float:
        ran = load("--rate", share, "--requests", 4, "--gateway", gateway.address, "--json")
        assert (ran.code, ran.err.count("note: ")) == (0, 1)
        planned = str(json.loads(ran.out)["plan"]["rate"])
        assert f"of these applications: {share} of that is {planned}\n" in ran.err
        return float(planned.removesuffix("/s"))

    whole = rate("80%")
    assert rate("40%") == pytest.approx(whole / 2, rel=0.01)
    gateway.nodes //= 2
    assert rate("80%") == pytest.approx(whole / 2, rel=0.01)


def test_share_of_a_mesh_without_nodes_is_refused(load: Run, gateway: Gateway) -> None:
    gateway.nodes = 0
    ran = load("--rate", "80%", "--gateway", gateway.address)
    assert (ran.code, len(gateway.got)) == (2, 0)
    assert ran.err == "error: the mesh has no nodes, so it can carry nothing; see esg top\n"
    ran = sent(load, gateway)
    assert ran.err == "note: the mesh has no nodes; requests wait until one joins, see esg top\n"
