"""What a slice does, whichever kind it is: one body, run against emulated ones, in a process of
their own and in this one, and a real one.

All know the functions of tests/triton; they differ in what the models compute, and in nothing that
an invoker relies on.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from esg.core.catalog.file import load_catalog
from esg.core.emulated_output import emulated_output
from esg.errors import Fault
from esg.invoker.slices.bringup import SliceSet, slice_set
from esg.invoker.slices.client import ModelGone, NoAnswer, SliceClient, SliceGone
from esg.invoker.tensors.arrays import Tensors, plain_input, plain_output
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.settings_file import environment
from tests.support.triton_folders import write_functions
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Subject:
    """A slice, and what its model `join` makes of a job's inputs."""

    part: SliceClient
    kind: str
    found: SliceSet

    def joined(self, *inputs: bytes) -> bytes:
        return b"".join(inputs) if self.kind == "cpu" else emulated_output("join", inputs, 1000)

    async def run(self, function: str, *jobs: list[bytes], limit_s: float = LIMIT_S) -> list[bytes]:
        tensors: list[Tensors] = [plain_input(job) for job in jobs]
        made = await self.part.infer(function, tensors, parameters={}, timeout_s=limit_s)
        return [plain_output(outputs) for outputs in made]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["emulated", "here", "cpu"])
async def subject(request: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Subject]:
    file = write_functions(tmp_path_factory.mktemp("functions"))
    common = CommonSettings(catalog=str(file))
    here = request.param == "here"
    own = InvokerSettings(slices="emulated:1" if here else f"{request.param}:1", noise=0.0)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment("common", {"catalog": file}).items():
            patch.setenv(name, value)
        async with slice_set(own, common, load_catalog(file), "node", alone=not here) as found:
            yield Subject(found.slices[0], request.param, found)


async def test_slice_is_live_and_ready_and_empty_at_first(subject: Subject) -> None:
    await subject.part.check(LIMIT_S)
    await subject.part.ready(LIMIT_S)
    assert await subject.part.name()


async def test_loaded_model_is_in_the_index_until_it_is_unloaded(subject: Subject) -> None:
    """To load or to unload something twice is no error; and one that was called can go too."""
    for _ in range(2):
        await subject.part.load("ponder")
    assert "ponder" in await subject.part.resident()
    await asyncio.gather(*(subject.run("ponder", [b"0 ms"]) for _ in range(2)))
    for _ in range(2):
        await subject.part.unload("ponder")
    assert "ponder" not in await subject.part.resident()
    with pytest.raises(ModelGone, match="unknown model: 'ponder' has no available versions"):
        await subject.run("ponder", [b"0 ms"])
    await subject.part.load("ponder")
    assert len(await subject.run("ponder", [b"0 ms"])) == 1


async def test_a_batch_gives_an_output_per_job_in_order(subject: Subject) -> None:
    await subject.part.load("join")
    jobs = [[b"a", b"b"], [b"", b"d"]]
    assert await subject.run("join", *jobs) == [subject.joined(*job) for job in jobs]


async def test_payloads_of_megabytes_arrive_whole(subject: Subject) -> None:
    await subject.part.load("join")
    large = bytes(range(256)) * 20_000
    assert await subject.run("join", [large, b"end"]) == [subject.joined(large, b"end")]


async def test_a_model_that_was_never_loaded_cannot_be_called(subject: Subject) -> None:
    words = "did not run invert: Request for unknown model: 'invert' is n"
    with pytest.raises(ModelGone, match=words):
        await subject.run("invert", [b"x"])


async def test_a_model_that_somebody_else_unloaded_can_be_loaded_again(subject: Subject) -> None:
    """Though it was called over a stream that is still open."""
    # attack: G1
    await subject.part.load("ponder")
    await subject.run("ponder", [b"0 ms"])
    async with subject.part._dial(subject.part.address) as channel:
        somebody: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        order = service_pb2.RepositoryModelUnloadRequest(model_name="ponder")
        await somebody.RepositoryModelUnload(order)
    with pytest.raises(ModelGone):
        await subject.run("ponder", [b"0 ms"])
    await subject.part.load("ponder")
    assert len(await subject.run("ponder", [b"0 ms"])) == 1


async def test_a_model_that_does_not_exist_cannot_be_loaded(subject: Subject) -> None:
    with pytest.raises(Fault, match=r"did not load nonsense: .*failed to poll"):
        await subject.part.load("nonsense")


async def test_a_tensor_that_the_model_does_not_know_is_refused(subject: Subject) -> None:
    await subject.part.load("join")
    with pytest.raises(Fault, match=r"did not run join: .*WHAT"):
        await subject.part.infer(
            "join", [{"WHAT": plain_input([b"x"])["INPUT"]}], parameters={}, timeout_s=LIMIT_S
        )
    assert await subject.run("join", [b"x"]) == [subject.joined(b"x")]


async def test_calls_at_the_same_time_each_get_their_own_answer(subject: Subject) -> None:
    await subject.part.load("join")
    jobs = [[f"job {n}".encode()] for n in range(5)]
    answers = await asyncio.gather(*(subject.run("join", job) for job in jobs))
    assert answers == [[subject.joined(*job)] for job in jobs]


async def test_a_call_that_takes_too_long_is_given_up(subject: Subject) -> None:
    await subject.part.load("ponder")
    with pytest.raises(NoAnswer, match="did not run ponder: no answer within"):
        await subject.run("ponder", [b"500 ms"], limit_s=0.02)
    await subject.part.check(LIMIT_S)


async def test_slice_without_a_server_is_gone(subject: Subject) -> None:
    nobody = SliceClient("127.0.0.1:1")
    with pytest.raises(SliceGone, match=r"slice 127\.0\.0\.1:1 did not answer: UNAVAILABLE"):
        await nobody.check(LIMIT_S)
    await nobody.close()
