"""`esg top`: on a real mesh, and how what it sees is shown."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from esg.cli.requests.top_view import Look, view
from esg.client import Client, MeshStatus
from esg.client.status import ApplicationStatus, KindStatus, NodeStatus, QueueStatus, SliceStatus
from esg.core.metrics import CAPTION
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.waiting import LIMIT_S

ESG = Path(sys.executable).with_name("esg")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a mesh with two nodes that is a hundred times as fast as the profiles say."""
    directory = tmp_path_factory.mktemp("mesh")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ESG_")}

    def ran(*arguments: object) -> str:
        command = [str(ESG), *map(str, arguments), "--dir", str(directory)]
        return subprocess.run(
            command, env=clean, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S
        ).stdout

    quick = ("--nodes", 2, "--scale", 0.01, "--warm-start", "--payload-scale", 0)
    ran("up", "--detach", "--port", 0, *quick)
    try:
        yield json.loads(ran("status", "--json"))["gateway"]
    finally:
        ran("down")


@pytest.fixture(autouse=True)
def _no_gateway_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ESG_GATEWAY", raising=False)


def told(name: str, *, arrived: int = 0, **counts: float) -> ApplicationStatus:
    ends = ("done", "in_time", "failed", "cancelled", "dropped", "refused", "overloaded")
    kept: dict[str, float] = dict.fromkeys(
        (*ends, "cost_usd", "latency_ms_p50", "latency_ms_p99"), 0
    )
    return ApplicationStatus(application=name, arrived=arrived, **kept | counts)  # type: ignore[arg-type]


def queue(application: str, stage: str, waiting: int = 0, running: int = 0) -> QueueStatus:
    return QueueStatus(
        application=application, stage=stage, waiting=waiting, running=running, oldest_ms=7.4
    )


def part(
    task: str = "", resident: tuple[str, ...] = (), loading: tuple[str, ...] = ()
) -> SliceStatus:
    return SliceStatus(task=task, function="", resident=resident, loading=loading)


def node(name: str, *slices: SliceStatus) -> NodeStatus:
    return NodeStatus(node=name, vcpus=16, vcpus_free=11, slices=slices)


def status(
    *applications: ApplicationStatus,
    uptime_ms: float = 0,
    queues: tuple[QueueStatus, ...] = (),
    nodes: tuple[NodeStatus, ...] = (),
) -> MeshStatus:
    return MeshStatus(
        uptime_ms=uptime_ms,
        policy="esg",
        under_way=3,
        tasks=4,
        jobs=6,
        cold_starts=2,
        local_transfers=5,
        remote_transfers=1,
        queues=queues,
        nodes=nodes,
        applications=applications,
    )


def lines(now: MeshStatus, before: MeshStatus | None = None, *, height: int = 0) -> list[str]:
    """A view of 80 columns, on a terminal of this height if there is one."""
    written = StringIO()
    on_terminal = bool(height)
    screen = Console(
        file=written, width=80, height=height or 25, force_terminal=on_terminal, color_system=None
    )
    screen.print(view(Look(now, before), "mesh:1", screen))
    return [re.sub("\x1b.*?m", "", line).rstrip() for line in written.getvalue().splitlines()]


# ---- a real mesh


def test_the_document_has_the_whole_state_of_the_mesh(esg: Run, gateway: str) -> None:
    with Client(gateway) as mesh:
        assert mesh.submit("image-classification", b"a picture").outcome == "done"
    ran = esg("top", "--once", "--json", "--interval", 0.1, "--gateway", gateway)
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert (found["policy"], found["under_way"]) == ("apex", 0)
    assert found["requests_per_s"] == 0
    rows = {row["application"]: row for row in found["applications"]}
    assert rows["image-classification"]["arrived"] >= 1
    assert rows["image-classification"]["done"] == rows["image-classification"]["arrived"]
    assert {(row["application"], row["stage"]) for row in found["queues"]} >= {
        ("image-classification", "segmentation"),
        ("depth-recognition", "depth"),
    }
    assert sorted(row["node"] for row in found["nodes"]) == ["node0", "node1"]
    assert all(len(row["slices"]) == 7 for row in found["nodes"])


def test_esg_top_once_is_plain_text_of_80_columns(
    esg: Run, gateway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESG_GATEWAY", gateway)
    ran = esg("top", "--once", "--interval", 0.1)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out
    assert "\x1b" not in ran.out
    assert ran.out.startswith(f"{gateway}  policy apex  up 0:0")
    assert "node1  ░░░░░░░   0/16 vCPUs" in ran.out


def test_esg_top_in_a_pipe_prints_a_line_of_json_for_every_look(gateway: str) -> None:
    command = [ESG, "top", "--json", "--interval", "0.1", "--gateway", gateway]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            looks = [json.loads(process.stdout.readline()) for _ in range(3)]
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    assert [look["requests_per_s"] for look in looks] == [None, 0, 0]
    assert looks[0]["uptime_ms"] < looks[1]["uptime_ms"] < looks[2]["uptime_ms"]


def test_esg_top_on_a_terminal_takes_the_screen_and_gives_it_back(gateway: str) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [ESG, "top", "--interval", "0.1", "--gateway", gateway],
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "40"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        try:
            seen = b""
            while seen.count(b"policy apex") < 3:
                seen += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            while chunk := _read_to_end(ours):
                seen += chunk
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()
            os.close(ours)
    assert seen.index(b"\x1b[?1049h") < seen.index(b"policy apex")
    assert seen.rindex(b"\x1b[?1049l") > seen.rindex(b"policy apex")
    assert b"Traceback" not in seen


def _read_to_end(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux tells that the other side is closed
        return b""


@pytest.mark.parametrize("arguments", [(), ("--once",), ("--json",), ("--once", "--json")])
def test_esg_top_without_a_gateway_prints_one_line(esg: Run, arguments: tuple[str, ...]) -> None:
    ran = esg("top", *arguments, "--gateway", "127.0.0.1:1")
    assert (ran.code, ran.out) == (3, "")
    assert re.fullmatch(r"error: no gateway at 127\.0\.0\.1:1; .*esg up.*--gateway.*\n", ran.err)


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "4000"])
def test_an_interval_that_cannot_be_is_refused(esg: Run, interval: str) -> None:
    ran = esg("top", "--interval", interval)
    assert_refused(ran, f"--interval is {interval}; it must be greater than 0 and at most 3600")


# ---- what is shown


def test_rates_are_of_what_came_since_the_look_before() -> None:
    before = status(told("photo", arrived=10), uptime_ms=1000)
    look = Look(status(told("photo", arrived=22), told("new", arrived=1), uptime_ms=3000), before)
    assert [row["requests_per_s"] for row in look.document()["applications"]] == [6, 0.5]
    assert look.document()["requests_per_s"] == 6.5


def test_a_first_look_and_a_new_controller_have_no_rates() -> None:
    first = status(told("photo", arrived=10), uptime_ms=5000)
    restarted = status(told("photo", arrived=2), uptime_ms=1000)
    for look in (Look(first, None), Look(restarted, first)):
        assert look.requests_per_s is None
        assert look.document()["applications"][0]["requests_per_s"] is None


def test_a_request_under_way_counts_neither_as_in_time_nor_as_late() -> None:
    ends = {"done": 5, "failed": 1, "dropped": 1, "refused": 1, "overloaded": 1}
    look = Look(status(told("photo", arrived=9, in_time=4, **ends)), None)
    assert look.document()["applications"][0]["slo_hit_rate"] == 0.5
    none = Look(status(told("photo", arrived=9)), None)
    assert none.document()["applications"][0]["slo_hit_rate"] is None


def test_the_hit_rate_is_not_of_mistakes_nor_of_what_was_called_off() -> None:
    photo = told("photo", arrived=9, done=4, in_time=4, cancelled=3, refused=2)
    assert Look(status(photo), None).document()["applications"][0]["slo_hit_rate"] == 1
    assert any("100.0%" in line for line in lines(status(photo)))
    wrong = Look(status(told("photo", arrived=2, refused=2)), None)
    assert wrong.document()["applications"][0]["slo_hit_rate"] is None


def test_an_application_has_its_figures_and_its_queues_below() -> None:
    before = status(told("photo", arrived=4), uptime_ms=1000)
    now = status(
        told(
            "photo",
            arrived=7,
            done=4,
            in_time=3,
            cost_usd=0.001,
            latency_ms_p50=400.4,
            latency_ms_p99=1500.6,
        ),
        uptime_ms=3_735_000,
        queues=(queue("photo", "detect", 2, 5), queue("photo", "name", 0, 1)),
    )
    drawn = lines(now, before)
    shown = [line.split() for line in drawn]
    assert shown[0][-5:] == ["0.0", "requests/s", "3", "under", "way"]
    assert "1:02:15" in shown[0]
    assert ["photo", "2", "6", "7", "0.0", "75.0%", "400", "1501", "0.2500"] in shown
    assert ["detect", "2", "5", "7"] in shown
    assert ["name", "·", "1", "·"] in shown
    assert "4 tasks, mean batch 1.50  2 cold starts  transfers: 5 local, 1 remote" in drawn
    assert " ".join(drawn).endswith(CAPTION)


def test_all_versions_of_an_application_share_a_row() -> None:
    now = status(told("photo"), queues=(queue("photo", "detect", 1), queue("photo@2", "detect", 2)))
    shown = [line.split() for line in lines(now)]
    assert [row[1] for row in shown if row[:1] == ["photo"]] == ["3"]
    assert [row[1] for row in shown if row[:1] == ["detect"]] == ["1", "2"]


def test_every_slice_is_a_block_and_nodes_are_in_order() -> None:
    slices = (part("t1", resident=("a",)), part(loading=("a",), resident=("b",)), part())
    now = status(nodes=(node("node10", part(resident=("a",))), node("node9", *slices)))
    shown = "\n".join(lines(now))
    assert re.search(r"node9   █▒·   5/16 vCPUs +node10  ░   5/16 vCPUs", shown)
    assert "slices:  █ 1 busy  ▒ 1 loading  ░ 1 warm  · 1 empty" in shown
    assert "lost" not in shown
    assert [row["node"] for row in Look(now, None).document()["nodes"]] == ["node9", "node10"]


def test_slices_that_are_out_of_order_stand_out() -> None:
    gone = SliceStatus(task="", function="", resident=(), loading=(), lost=True)
    shown = "\n".join(lines(status(nodes=(node("node0", gone, part()),))))
    assert "×·" in shown
    assert "· 1 empty  × 1 lost" in shown


def test_esg_top_tells_of_requests_that_were_not_served() -> None:
    mixed = told("photo", done=1, failed=2, refused=3)
    late, left = told("late", dropped=4), told("left", cancelled=5)
    busy = told("busy", refused=7, overloaded=6)
    shown = lines(status(mixed, late, left, busy, told("other", done=1)))
    assert "busy: 7 refused (6 for overload)" in shown
    assert {"photo: 2 failed, 3 refused", "late: 4 dropped", "left: 5 cancelled"} <= {*shown}
    assert not any(line.startswith("other:") for line in shown)


def test_a_mesh_without_nodes_says_so() -> None:
    assert "no nodes: requests wait until one joins" in lines(status())


def test_a_mesh_that_takes_no_requests_says_why() -> None:
    shown = lines(replace(status(), refusing="the journal's disk is full"))
    assert shown[1] == "no new requests: the journal's disk is full"


def test_on_a_low_terminal_idle_queues_go_first() -> None:
    queues = (queue("photo", "detect", 1), *(queue("photo", f"idle{n}") for n in range(10)))
    now = status(told("photo"), queues=queues)
    stages = {
        height: [line.strip().split()[0] for line in lines(now, height=height) if line[:1] == " "]
        for height in (40, 14, 11)
    }
    idle = [f"idle{n}" for n in range(10)]
    assert stages[40][-11:] == ["detect", *idle]
    assert stages[14][-1] == "detect"
    assert "detect" not in stages[11]


def test_the_view_fits_into_80_columns_when_figures_are_large() -> None:
    figures = {"done": 10**6, "in_time": 10**6, "cost_usd": 200.0}
    slow = {"latency_ms_p50": 12_345.0, "latency_ms_p99": 98_765.0}
    name = "expanded-image-classification"
    application = told(name, arrived=10**6, **figures, **slow)
    now = status(application, uptime_ms=10_000, queues=(queue(name, "deblur", 9_999, 9_999),))
    shown = lines(now, status(uptime_ms=0))
    assert max(map(len, shown)) <= 80
    assert "…" not in "".join(shown)


def test_kinds_of_slices_are_told_with_what_is_not_planned_on_them() -> None:
    kinds = (
        KindStatus(kind="1g.10gb", slices=6),
        KindStatus(kind="3g.40gb", slices=2, unprofiled=("depth",)),
        KindStatus(kind="cpu-1", slices=1, unprofiled=("depth", "blur"), nothing=True),
    )
    told = " ".join(lines(replace(status(), kinds=kinds)))
    assert "kinds of slices: 6 x 1g.10gb, 2 x 3g.40gb, 1 x cpu-1" in told
    assert "not planned: depth on 3g.40gb: no profile; measure with: esg profile" in told
    assert "nothing is planned on cpu-1: no profile" in told
    alike = " ".join(lines(replace(status(), kinds=(KindStatus(kind="", slices=6),))))
    assert "kinds of slices" not in alike
