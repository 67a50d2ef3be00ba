"""The client for programs without asyncio."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from esg.client import Client, InvalidRequest, NotFound, PipelineStage, Result, Unavailable
from tests.support.running_gateway import playing_mesh
from tests.support.scripted_controller import ENDLESS, KNOWN
from tests.support.waiting import LIMIT_S, wait_until


@pytest.fixture
def mesh(redis_url: str, tmp_path: Path) -> Iterator[Client]:
    with playing_mesh(redis_url, tmp_path) as (_, address), Client(address) as mesh:
        yield mesh


def test_sync_client_does_what_the_async_client_does(mesh: Client) -> None:
    assert mesh.submit(KNOWN, b"abc").outputs == {"second": b"cba"}
    request = mesh.submit_async(KNOWN, b"abc", request_id="r1")
    *progress, result = mesh.watch(request)
    assert len(progress) == 4
    assert isinstance(result, Result)
    assert mesh.get("r1").result == result
    assert not mesh.cancel("r1")
    assert mesh.fetch("r1").outputs == {"second": b"cba"}
    mesh.register_application("new", [PipelineStage("deblur")], slo_ms=100)
    mesh.update_application("new", [PipelineStage("deblur")], slo_ms=200)
    assert mesh.describe_application("new").slo_ms == 200.0
    mesh.delete_application("new")
    assert "new" not in [application.name for application in mesh.list_applications()]
    with pytest.raises(InvalidRequest, match="payload: is empty"):
        mesh.submit(KNOWN, b"")
    with pytest.raises(NotFound):
        mesh.get("nobody")


def test_a_watch_may_be_left_early(mesh: Client) -> None:
    for status in mesh.watch_mesh(1):
        if status.under_way == 3:
            break
    assert mesh.submit(KNOWN, b"abc").slo_met


def test_a_stream_gives_futures(mesh: Client) -> None:
    with mesh.stream() as stream:
        answers = [stream.submit(KNOWN, b"%d" % i) for i in range(100)]
    assert [answer.result().outputs["second"] for answer in answers] == [
        (b"%d" % i)[::-1] for i in range(100)
    ]


def test_closing_twice_is_closing_once() -> None:
    mesh = Client("127.0.0.1:1")
    mesh.close()
    mesh.close()


@pytest.mark.filterwarnings("error")
def test_a_client_that_is_closed_says_so(mesh: Client) -> None:
    with mesh.stream() as stream:
        watching = mesh.watch_mesh(1)
        next(watching)
        mesh.close()
        for use in (
            lambda: mesh.submit(KNOWN, b"abc"),
            lambda: list(mesh.watch_mesh()),
            lambda: stream.submit(KNOWN, b"abc"),
            lambda: next(watching),
        ):
            with pytest.raises(Unavailable, match="this client is closed; make another one"):
                use()


def is_known(mesh: Client, request_id: str) -> bool:
    try:
        return bool(mesh.get(request_id))
    except NotFound:
        return False


def test_caller_that_waits_in_another_thread_while_the_client_is_closed_is_told(
    mesh: Client,
) -> None:
    with ThreadPoolExecutor(1) as threads, mesh.stream() as stream:
        answer = stream.submit(ENDLESS, b"abc")
        waiting = threads.submit(mesh.submit, ENDLESS, b"abc", request_id="r1")
        wait_until(lambda: is_known(mesh, "r1"))
        mesh.close()
        for future in (answer, waiting):
            with pytest.raises(Unavailable, match="this client is closed"):
                future.result(LIMIT_S)
