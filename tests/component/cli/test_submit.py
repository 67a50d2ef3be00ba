"""`esg submit`, `get` and `cancel`, against a gateway in a process of its own."""

import asyncio
import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from esg.cli.requests.outputs import Folder
from esg.cli.requests.submit import Sent, SubmitPlan, _submit
from esg.client import AsyncClient, Client
from esg.core.emulated_output import emulated_output
from esg.errors import Rejected
from esg.units import US_PER_S
from tests.component.cli.conftest import Run
from tests.support.redis_server import RedisServer
from tests.support.running_gateway import playing_mesh
from tests.support.scripted_controller import ENDLESS, FAILING, KNOWN, REMEMBERED_US
from tests.support.waiting import LIMIT_S, until, wait_until


@pytest.fixture
def gateway(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its address, which commands find in the environment."""
    directory = tmp_path / "mesh"
    directory.mkdir()
    with playing_mesh(redis_url, directory) as (_, address):
        monkeypatch.setenv("ESG_GATEWAY", address)
        yield address


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    names = {"one.jpg": b"abc", "two.jpg": b"defg"}
    for name, content in names.items():
        (tmp_path / name).write_bytes(content)
    return [tmp_path / name for name in names]


@pytest.mark.usefixtures("gateway")
def test_esg_submit_shows_a_table_for_every_file(
    esg: Run, photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos[0].parent)
    ran = esg("submit", KNOWN, *(photo.name for photo in photos))
    assert (ran.code, ran.err) == (0, "")
    assert "one.jpg: done in 70.0 ms, SLO of 900.0 ms kept; 0.1200 USD per 1k" in ran.out
    assert ran.out.count("first") == ran.out.count("outputs: second") == 2
    row = next(line for line in ran.out.splitlines() if line.startswith("first"))
    assert row.split() == ["first", "i0", "1/2/1", "10.0", "30.0", "0.0600"]


@pytest.mark.usefixtures("gateway")
def test_outputs_are_written_and_the_document_says_where(
    esg: Run, photos: list[Path], tmp_path: Path
) -> None:
    ran = esg("submit", KNOWN, *photos, "--json", "--out", tmp_path / "deep" / "out")
    assert (ran.code, ran.err) == (0, "")
    one, two = json.loads(ran.out)["requests"]
    assert (one["file"], one["outcome"], one["slo_met"]) == (str(photos[0]), "done", True)
    assert one["stages"][0]["config"] == {"batch": 1, "vcpus": 2, "vgpus": 1, "kind": ""}
    assert one["outputs"]["second"]["bytes"] == 3
    assert Path(one["outputs"]["second"]["file"]).read_bytes() == b"cba"
    assert Path(two["outputs"]["second"]["file"]).read_bytes() == b"gfed"
    written = sorted(path.name for path in (tmp_path / "deep" / "out").iterdir())
    assert written == ["one.jpg.second", "two.jpg.second"]


@pytest.mark.usefixtures("gateway")
def test_a_payload_can_come_from_standard_input(
    esg: Run, photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xffpiped")))
    ran = esg("submit", KNOWN, "-", photos[0], "--json", "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    piped, named = json.loads(ran.out)["requests"]
    assert (piped["file"], named["file"]) == ("stdin", str(photos[0]))
    written = Path(piped["outputs"]["second"]["file"])
    assert written == tmp_path / "out" / "stdin.second"
    assert written.read_bytes() == b"depip\xff"


@pytest.mark.usefixtures("gateway")
def test_standard_input_is_read_once(esg: Run) -> None:
    ran = esg("submit", KNOWN, "-", "-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: - (standard input) can be read only once; name it once\n"


@pytest.mark.usefixtures("gateway")
def test_people_are_told_once_that_digests_are_no_pictures(
    esg: Run, photos: list[Path], tmp_path: Path
) -> None:
    digests = tmp_path / "digests"  # the mesh gives what it got, backwards
    digests.write_bytes(emulated_output("detect", [b"picture"], 1000))
    ran = esg("submit", KNOWN, digests, digests, photos[0])
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("slices are emulated: outputs are digests, not pictures") == 1
    assert "emulated" not in esg("submit", KNOWN, *photos).out
    assert "requests" in json.loads(esg("submit", KNOWN, digests, "--json").out)


@pytest.mark.usefixtures("gateway")
def test_people_are_told_what_was_written(esg: Run, photos: list[Path], tmp_path: Path) -> None:
    ran = esg("submit", KNOWN, *photos, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    told = [line for line in ran.out.splitlines() if line.startswith(("written", "outputs"))]
    assert told == [
        f"written: {tmp_path / 'out' / 'one.jpg.second'} (3 bytes)",
        f"written: {tmp_path / 'out' / 'two.jpg.second'} (4 bytes)",
    ]


@pytest.mark.usefixtures("gateway")
def test_outputs_are_not_fetched_for_a_folder_that_cannot_be_written_to(
    esg: Run, photos: list[Path], tmp_path: Path
) -> None:
    request = esg("submit", KNOWN, photos[0], "--no-wait").out.strip()
    ran = esg("get", request, "--out", "/proc/self")  # not even root can write there
    assert (ran.code, ran.out) == (2, "")
    assert "name a folder that can be written to" in ran.err
    assert esg("get", request, "--out", tmp_path / "out").code == 0
    assert (tmp_path / "out" / f"{request}.second").read_bytes() == b"cba"


@pytest.mark.usefixtures("gateway")
def test_a_name_that_is_too_long_for_its_output_does_not_keep_the_others(
    esg: Run, photos: list[Path], tmp_path: Path
) -> None:
    long = tmp_path / f"{'x' * 250}.jpg"
    long.write_bytes(b"hij")
    ran = esg("submit", KNOWN, long, photos[1], "--out", tmp_path / "out")
    assert ran.code == 2
    assert "cannot be written: File name too long" in ran.err
    assert ran.out.count(": done in") == 2
    assert (tmp_path / "out" / "two.jpg.second").read_bytes() == b"gfed"


def test_an_output_that_cannot_be_written_does_not_keep_those_of_other_stages(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path, [Path("one.jpg")])
    (tmp_path / "one.jpg.b").mkdir()
    with pytest.raises(Rejected, match=r"one\.jpg\.b: cannot be written: Is a directory"):
        folder.write(Path("one.jpg"), {"a": b"1", "b": b"2", "c": b"3"})
    there = {stage: path.read_bytes() for stage, path in folder.written[Path("one.jpg")].items()}
    assert there == {"a": b"1", "c": b"3"}


@pytest.mark.usefixtures("gateway")
def test_a_result_is_shown_whatever_becomes_of_its_outputs(
    esg: Run, photos: list[Path], tmp_path: Path
) -> None:
    request = esg("submit", KNOWN, photos[0], "--no-wait").out.strip()
    (tmp_path / "out" / f"{request}.second").mkdir(parents=True)
    for more in ((), ("--json",)):
        ran = esg("get", request, "--out", tmp_path / "out", *more)
        assert ran.code == 2
        assert ran.err.endswith(".second: cannot be written: Is a directory\n")
        assert "70.0" in ran.out


@pytest.mark.usefixtures("gateway")
def test_esg_submit_without_waiting_prints_ids_whose_results_are_fetched_later(
    esg: Run, photos: list[Path], tmp_path: Path, gateway: str
) -> None:
    ran = esg("submit", KNOWN, *photos, "--no-wait")
    assert (ran.code, ran.err) == (0, "")
    first, second = ran.out.split()
    with Client(gateway) as mesh:
        assert list(mesh.watch(first))
    shown = esg("get", first).out
    assert "done in 70.0 ms" in shown
    assert re.search(
        r"outputs: second 3 bytes; until \S*\s?\d\d:\d\d:\d\d, --out DIR fetches them", shown
    )
    document = json.loads(esg("get", first, "--json").out)
    assert document["output_bytes"] == {"second": 3}
    left = datetime.fromisoformat(document["fetch_until"]) - datetime.now().astimezone()
    assert left <= timedelta(seconds=REMEMBERED_US / US_PER_S)
    assert "outputs" not in json.loads(esg("get", first, "--json").out)["result"]
    written = tmp_path / "out" / f"{second}.second"
    later = json.loads(esg("get", second, "--out", tmp_path / "out", "--json").out)["result"]
    assert later["request_id"] == second
    assert later["outputs"] == {"second": {"bytes": 4, "file": str(written)}}
    assert written.read_bytes() == b"gfed"
    for _ in range(2):  # as often as wanted
        told = esg("get", first, "--out", tmp_path / "out").out
        assert f"written: {tmp_path / 'out' / first}.second (3 bytes)\n" in told
        assert "--out DIR" not in told
    assert esg("cancel", first).out == "not cancelled: it had already ended\n"
    document = json.loads(esg("cancel", first, "--json").out)
    assert document == {"request_id": first, "cancelled": False}


@pytest.fixture
def keys(redis_server: RedisServer) -> Callable[[], int]:
    """How many there are in Redis."""

    def look() -> int:
        with redis_server.client() as client:
            return len(list(client.scan_iter("*")))

    return look


@pytest.mark.usefixtures("gateway")
def test_ctrl_c_cancels_what_is_under_way(photos: list[Path], keys: Callable[[], int]) -> None:
    command = [sys.executable, "-c", "import sys; from esg.cli.main import run; sys.exit(run())"]
    child = subprocess.Popen([*command, "submit", ENDLESS, *map(str, photos)])
    try:
        wait_until(lambda: keys() == 2)  # the payloads of requests that were accepted
        child.send_signal(signal.SIGINT)
        assert child.wait(LIMIT_S) == 130
        wait_until(lambda: keys() == 0)
    finally:
        child.kill()
        child.wait(LIMIT_S)


async def test_ctrl_c_cancels_what_was_accepted_without_our_hearing_of_it(
    gateway: str, photos: list[Path], keys: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted: list[str] = []
    both = asyncio.Event()
    really = AsyncClient.submit_async

    async def never_heard_of(mesh: AsyncClient, *arguments: Any, **more: Any) -> str:
        accepted.append(await really(mesh, *arguments, **more))
        if len(accepted) == len(photos):
            both.set()
        return await asyncio.Future[str]()

    monkeypatch.setattr(AsyncClient, "submit_async", never_heard_of)
    sent = [Sent(photo) for photo in photos]
    asked = SubmitPlan(ENDLESS, slo_ms=None, all_stages=False)
    submitting = asyncio.create_task(_submit(gateway, asked, sent, wait=True, shown=False))
    async with asyncio.timeout(LIMIT_S):
        await both.wait()
    assert keys() == len(photos)
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    await until(lambda: keys() == 0)


@pytest.mark.usefixtures("gateway")
def test_a_refusal_is_one_line_and_the_other_files_are_done(esg: Run, photos: list[Path]) -> None:
    photos[0].write_bytes(b"")
    ran = esg("submit", KNOWN, *photos)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {photos[0]}: payload: is empty; send")
    assert ran.err.count("\n") == 1
    assert "two.jpg: done" in ran.out.replace("\n", " ")


@pytest.mark.usefixtures("gateway")
def test_failed_requests_are_told_once_with_a_line_for_each_reason(
    esg: Run, photos: list[Path], tmp_path: Path
) -> None:
    twin = tmp_path / "three.jpg"
    twin.write_bytes(b"abc")
    ran = esg("submit", FAILING, *photos, twin)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        f"error: {photos[0]}: failed: abc (and 1 other)",
        f"error: {photos[1]}: failed: defg",
    ]
    ran = esg("submit", FAILING, photos[0], "--json")
    assert (ran.code, ran.err.count("abc")) == (1, 1)
    assert json.loads(ran.out)["requests"][0]["outcome"] == "failed"


@pytest.mark.usefixtures("gateway")
def test_names_that_the_mesh_does_not_know_are_refused(esg: Run, photos: list[Path]) -> None:
    for arguments, words in (
        (("submit", "reversl", photos[0]), "did you mean 'reversal'?"),
        (("get", "nobody"), "unknown request 'nobody'"),
        (("cancel", "a/b"), "it must be 1 to 100 letters"),
    ):
        ran = esg(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err


def test_bad_arguments_are_refused_before_anything_is_sent(
    esg: Run, photos: list[Path], tmp_path: Path
) -> None:
    twin = tmp_path / "other" / "one.jpg"
    twin.parent.mkdir()
    twin.write_bytes(b"x")
    for arguments, words in (
        ((tmp_path / "none.jpg",), "no such file; name files"),
        ((tmp_path,), "is not a file"),
        ((photos[0], "--slo-ms", "-1"), "--slo-ms is -1; it must be greater than 0"),
        ((photos[0], "--no-wait", "--out", tmp_path / "new"), "--out needs the results"),
        ((photos[0], twin, "--out", tmp_path), "several files are called one.jpg"),
        ((photos[0], "--out", photos[1]), "name a folder that can be written to"),
    ):
        ran = esg("submit", KNOWN, *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
    assert not (tmp_path / "new").exists()


def test_esg_submit_without_a_gateway_says_what_to_do_in_one_line(
    esg: Run, photos: list[Path]
) -> None:
    ran = esg("submit", KNOWN, photos[0], "--gateway", "127.0.0.1:1")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: no gateway at 127.0.0.1:1; start a mesh with esg up")
    assert ran.err.count("\n") == 1
