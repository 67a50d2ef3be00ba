"""The invoker's view of a slice, with a real process on the other side.

Every test has a slice to itself, all of one process, so that none depends on another.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from esg.core.catalog.file import load_catalog
from esg.core.durations import Durations
from esg.core.emulated_output import emulated_output
from esg.errors import Fault
from esg.invoker.emulated.repository import Repository
from esg.invoker.emulated.service import EmulatedSlice
from esg.invoker.slices.client import SERVICE, SliceClient, SliceGone, split
from esg.invoker.tensors.arrays import plain_input, plain_output
from esg.runtime.rpc.server import Server
from tests.support.emulated_process import INPUT_BYTES, emulated, until_state
from tests.support.held_memory import held_since
from tests.support.waiting import LIMIT_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCALE = "0.1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fresh(catalog: Path) -> AsyncIterator[Iterator[str]]:
    """Addresses of slices that nobody has used."""
    async with emulated(32, catalog, time_scale=SCALE) as process:
        yield iter(process.addresses)


@pytest_asyncio.fixture(loop_scope="module")
async def slice_(fresh: Iterator[str]) -> AsyncIterator[SliceClient]:
    found = SliceClient(next(fresh))
    yield found
    await found.close()


def parameters(batch: int = 1, vcpus: int = 1, vgpus: int = 1) -> dict[str, int | str]:
    return {"esg_batch": batch, "esg_vcpus": vcpus, "esg_vgpus": vgpus, "esg_key": "r1/detect"}


async def run(slice_: SliceClient, function: str, rows: Any, **config: int) -> list[bytes]:
    jobs = [plain_input(row) for row in rows]
    made = await slice_.infer(function, jobs, parameters=parameters(**config), timeout_s=LIMIT_S)
    return [plain_output(outputs) for outputs in made]


async def test_a_slice_that_is_up_is_ready_and_empty(slice_: SliceClient) -> None:
    await slice_.ready(LIMIT_S)
    assert await slice_.resident() == []


async def test_loaded_model_is_resident_until_it_is_unloaded(slice_: SliceClient) -> None:
    await slice_.load("quick")
    await slice_.load("other")
    assert await slice_.resident() == ["other", "quick"]
    await slice_.unload("quick")
    assert (await slice_._states())["quick"] == "UNAVAILABLE"
    assert await slice_.resident() == ["other"]


async def test_the_memory_of_what_was_unloaded_is_free_at_once(slice_: SliceClient) -> None:
    for model in ("quick", "other"):
        await slice_.load(model)
    for model in ("quick", "other"):
        await slice_.unload(model)
    await slice_.load("large")
    assert await slice_.resident() == ["large"]


async def test_a_slice_with_a_model_on_its_way_still_counts_as_ready(slice_: SliceClient) -> None:
    loading = asyncio.create_task(slice_.load("heavy"))
    await until_state(slice_._states, "heavy", "LOADING")
    await slice_.ready(LIMIT_S)
    assert await slice_.resident() == []
    loading.cancel()


async def test_a_batch_gives_an_output_per_job_in_order(slice_: SliceClient) -> None:
    await slice_.load("quick")
    rows: list[list[bytes]] = [[b"one", b"left"], [memoryview(b"two"), b""]]
    expected = [emulated_output("quick", row, INPUT_BYTES) for row in rows]
    assert await run(slice_, "quick", rows, batch=2) == expected


async def test_portions_of_a_batch_run_on_two_slices(
    slice_: SliceClient, fresh: Iterator[str]
) -> None:
    neighbour = SliceClient(next(fresh))
    slices = [slice_, neighbour]
    for part in slices:
        await part.load("quick")
    rows = [[f"job {n}".encode()] for n in range(4)]
    portions = await asyncio.gather(
        *(
            run(part, "quick", portion, batch=4, vcpus=2, vgpus=2)
            for part, portion in zip(slices, split(rows, 2), strict=True)
        )
    )
    assert [len(portion) for portion in portions] == [2, 2]
    assert [output for portion in portions for output in portion] == [
        emulated_output("quick", row, INPUT_BYTES) for row in rows
    ]
    await neighbour.close()


async def test_payloads_may_be_larger_than_grpc_allows_by_default(catalog: Path) -> None:
    scale = 6_000  # times INPUT_BYTES: 6 MB back
    payload = os.urandom(5_000_000)
    settings = {"time_scale": SCALE, "invoker_payload_scale": str(scale)}
    async with emulated(1, catalog, **settings) as process:
        slice_ = SliceClient(process.addresses[0])
        await slice_.load("quick")
        (output,) = await run(slice_, "quick", [[memoryview(payload)]])
        await slice_.close()
    assert output == emulated_output("quick", [payload], scale * INPUT_BYTES)


async def test_slice_gives_each_of_many_calls_at_once_its_own_answer(slice_: SliceClient) -> None:
    await slice_.load("quick")
    jobs = [[[f"job {n}".encode()]] for n in range(200)]
    answers = await asyncio.gather(*(run(slice_, "quick", rows) for rows in jobs))
    assert answers == [[emulated_output("quick", rows[0], INPUT_BYTES)] for rows in jobs]


async def test_a_fault_names_the_slice_and_says_what_triton_said(slice_: SliceClient) -> None:
    words = "Request for unknown model: 'quick' is not found"
    with pytest.raises(Fault, match=rf"{slice_.address} did not run quick: {words}"):
        await run(slice_, "quick", [[b"x"]])
    with pytest.raises(Fault, match=rf"{slice_.address} did not load nonsense: .*failed to poll"):
        await slice_.load("nonsense")


async def test_a_call_that_takes_too_long_is_a_fault(slice_: SliceClient) -> None:
    await slice_.load("endless")
    with pytest.raises(Fault, match="did not run endless: no answer within"):
        await slice_.infer(
            "endless", [plain_input([b"x"])], parameters=parameters(), timeout_s=0.05
        )


async def test_a_call_that_is_given_up_frees_the_slice(slice_: SliceClient) -> None:
    await slice_.load("endless")
    await slice_.load("quick")
    first = asyncio.create_task(run(slice_, "endless", [[b"x"]]))
    await asyncio.sleep(0)
    await slice_.ready(LIMIT_S)  # by now the first call is in: one connection keeps the order
    assert not first.done()
    first.cancel()
    assert await run(slice_, "quick", [[b"x"]]) == [emulated_output("quick", [b"x"], INPUT_BYTES)]
    assert first.cancelled()


async def test_a_model_that_was_called_can_be_unloaded(slice_: SliceClient) -> None:
    """As a Triton does, the server keeps it for as long as a stream is open that called it."""
    await slice_.load("quick")
    await run(slice_, "quick", [[b"x"]])
    other = SliceClient(slice_.address)
    await run(other, "quick", [[b"x"]])
    unloading = asyncio.create_task(slice_.unload("quick"))
    while await slice_.resident():  # noqa: ASYNC110 - only asking tells
        await asyncio.sleep(0.001)
    assert not unloading.done()
    await other.close()
    await unloading


async def test_neither_side_of_a_stream_keeps_the_last_message(
    catalog: Path, tmp_path: Path
) -> None:
    # attack: B3
    size = 2**20
    models = load_catalog(catalog)
    repository = Repository(models.functions, memory_mb=1000, load_us=lambda _: 0, unload_us=0)
    emulated_slice = EmulatedSlice("n1/0", repository, Durations(models, 7), payload_scale=2000)
    server = Server()
    server.grpc.add_generic_rpc_handlers((emulated_slice.handlers(),))
    address = f"unix:{tmp_path / 'slice.sock'}"
    await server.start(address, 0, [SERVICE])
    here = SliceClient(address)
    await here.load("quick")
    with held_since(size) as held:
        (answer,) = await run(here, "quick", [[bytes(size)]])
        assert len(answer) > size
        del answer
        await until(lambda: held() == [])
    await here.close()
    await server.stop(0)
    emulated_slice.close()


async def test_a_stream_that_ends_while_it_is_written_to_is_a_slice_that_is_gone(
    slice_: SliceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another kind of fault would say nothing of the slice, and the node go on using it."""
    await slice_.load("quick")
    await run(slice_, "quick", [[b"first"]])

    async def write(_call: object, _request: bytes) -> None:
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.INTERNAL, nothing, nothing, "Internal error from Core"
        )

    monkeypatch.setattr("grpc.aio._call.StreamStreamCall.write", write)
    with pytest.raises(SliceGone, match="it ended the conversation"):
        await run(slice_, "quick", [[b"second"]])
