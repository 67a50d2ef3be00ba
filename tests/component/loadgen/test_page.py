"""The report of a run: complete, harmless, and in need of nothing else."""

import json
import re
from datetime import UTC, datetime
from html import escape

import pytest

from esg.client.applications import ApplicationInfo
from esg.client.status import status_of
from esg.loadgen.outcome import LoadOutcome
from esg.loadgen.record import SentRecord
from esg.loadgen.report.circumstances import Circumstances
from esg.loadgen.report.figures import figures
from esg.loadgen.report.page import report
from esg.loadgen.run import LoadFindings
from esg.loadgen.target import Target
from esg.protos import model_v1_pb2 as model
from esg.reporting.provenance import Provenance
from esg.units import seconds
from esg.version import __version__
from esg.workload.plan import Workload

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>&amp;'
PLAN = Workload(rate="heavy")
PHOTO = ApplicationInfo(
    name="photo", stages=(), slo_ms=526.0, version=1, alone_ms=500.0, fastest_ms=100.0
)
UNDER = Circumstances(
    target=Target(
        "10.0.0.7:50051",
        {"photo": PHOTO},
        status_of(
            model.MeshStatus(
                policy="apex",
                nodes=[
                    model.NodeStatus(node=name, vcpus=16, slices=[model.SliceStatus()] * 7)
                    for name in ("node0", "node1")
                ],
            )
        ),
    ),
    provenance=Provenance(
        command=f"loadgen --rate heavy --csv '{HOSTILE}'",
        ended=datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    ),
)


def record(number: int, application: str, *, done: bool = True) -> SentRecord:
    times = seconds(number / 10), 500, 200_000
    told = (526_000, 190_000, 0.001, (1, 4), ("node0", "node1"), f"r{number}", "")
    if done:
        return SentRecord(number, application, *times, "done", True, *told)
    return SentRecord(number, application, *times, "error", False, 0, 0, 0.0, (), (), "", HOSTILE)


@pytest.fixture(scope="module")
def found() -> LoadFindings:
    made = LoadFindings(sent=42, sending_s=4.2, elapsed_s=4.6)
    for number in range(20):
        made.fold(record(2 * number, "photo"))
        made.fold(record(2 * number + 1, HOSTILE))
    made.fold(record(41, "photo", done=False))
    return made


@pytest.fixture(scope="module")
def page(found: LoadFindings) -> str:
    return report(PLAN, found, under=UNDER)


def plots(page: str) -> list[dict[str, object]]:
    return [
        json.loads(text)
        for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)
    ]


def test_the_plots_are_there(page: str, found: LoadFindings) -> None:
    drawn = figures(found, None)
    assert [figure.title for figure in drawn] == [
        "Latency over time, against the SLO",
        "Arrivals and completions",
        "Hit rate and cost",
        "Batch sizes",
    ]
    assert len(plots(page)) == sum(len(figure.panels) for figure in drawn) == 2 + 1 + 2 + 1
    assert all(plot["data"] for plot in plots(page))


def test_the_slo_is_a_line_in_the_latencies(found: LoadFindings) -> None:
    (latencies, *_) = figures(found, None)
    for panel in latencies.panels:
        (line,) = panel.plot.layout.shapes
        assert (line.y0, line.y1) == (526, 526)


def test_latencies_are_in_milliseconds_over_seconds(found: LoadFindings) -> None:
    (latencies, *_) = figures(found, None)
    (photo,) = (panel for panel in latencies.panels if panel.title == "photo")
    p50, _ = photo.plot.data
    assert list(p50.x) == [0.0, 1.0, 2.0, 3.0]
    assert list(p50.y) == pytest.approx([200] * 4, rel=0.01)


def test_arrivals_and_completions_are_per_second(found: LoadFindings) -> None:
    _, arrivals, *_ = figures(found, None)
    sent, answered = arrivals.panels[0].plot.data
    assert list(sent.y) == [10, 10, 10, 10, 1]
    assert list(answered.y) == [8, 10, 10, 10, 2]


def test_the_emulators_run_stands_beside_it(found: LoadFindings) -> None:
    emulated = LoadOutcome()
    emulated.fold(record(1, "photo"))
    _, _, rates, _ = figures(found, emulated)
    assert list(rates.legend) == ["live", "emulated"]
    assert all(len(panel.plot.data) == 2 for panel in rates.panels)
    assert "<h2>Emulated</h2>" in report(PLAN, found, emulated, under=UNDER)


def test_pages_of_two_runs_can_be_told_apart(page: str) -> None:
    facts = dict(re.findall(r"<tr><td>(\w+)</td><td>([^<]*)</td></tr>", page))
    assert facts == {
        "Ended": "2026-03-04 05:06:07+00:00",
        "Command": escape(UNDER.provenance.command),
        "Version": __version__,
        "Gateway": "10.0.0.7:50051",
        "Policy": "apex",
        "Nodes": "2: 2 with 7 vGPUs and 16 vCPUs",
    }
    assert "<tr><td>photo</td><td>526</td><td>21</td>" in page


def test_report_page_says_that_the_mesh_fell_behind(page: str) -> None:
    assert "The mesh fell behind" not in page
    late = LoadFindings(sent=2, sending_s=1.0, elapsed_s=2.0)
    for number in range(2):
        late.fold(record(number, "photo")._replace(in_time=False))
    assert "<strong>The mesh fell behind. " in report(PLAN, late, under=UNDER)


def test_report_page_loads_nothing(page: str) -> None:
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "default-src 'none'" in own
    assert not re.search(r"<[^>]*\b(src|href|action|data)=", own)
    assert "<link" not in own
    assert "url(" not in own


def test_a_hostile_name_or_reason_is_only_shown(page: str) -> None:
    assert HOSTILE not in page
    assert "alert(1)</script>" not in page
    assert page.count(escape(HOSTILE)) >= 3


def test_report_page_tells_the_errors_of_the_run(page: str) -> None:
    assert f"<li>1 x {escape(HOSTILE)}</li>" in page
    assert "42 requests sent in 4.2 s (10.0/s)" in page
    assert "went out in time" in page


def test_a_run_without_answers_is_a_page_too() -> None:
    page = report(PLAN, LoadFindings(), under=UNDER)
    assert plots(page) == []
    assert "0 requests sent" in page
