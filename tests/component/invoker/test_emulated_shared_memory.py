"""Tensors that go to an emulated slice through shared memory, as they do to a real one."""

from collections.abc import AsyncIterator
from secrets import token_hex

import grpc
import pytest
import pytest_asyncio
from tritonclient.grpc import service_pb2 as triton
from tritonclient.grpc import service_pb2_grpc

from esg.core.emulated_output import emulated_output
from esg.files import MEMORY
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.shm.region import PREFIX, SMALLEST
from esg.invoker.slices.shm.transfer import SharedMemory
from tests.support.emulated_process import INPUT_BYTES, emulated, write_catalog
from tests.support.waiting import LIMIT_S

LARGE = bytes(range(250)) * 1000
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    catalog = write_catalog(tmp_path_factory.mktemp("catalog"))
    async with emulated(1, catalog, invoker_slices="emulated:1") as process:
        part = SliceClient(process.addresses[0])
        await part.load("quick")
        await part.close()
        yield process.addresses[0]


class Shared:
    """A slice with shared memory of its own."""

    def __init__(self, address: str, limit_bytes: int = 16 * SMALLEST) -> None:
        self.name = f"{PREFIX}test-{token_hex(6)}"
        self.part = SliceClient(address, SharedMemory(self.name, limit_bytes))

    async def call(self, *rows: list[bytes]) -> None:
        """Have each row run, and look at what comes back."""
        parameters = {"esg_batch": len(rows), "esg_vcpus": 1, "esg_vgpus": 1}
        made = await self.part.infer_plain("quick", rows, parameters=parameters, timeout_s=LIMIT_S)
        assert made == [emulated_output("quick", row, INPUT_BYTES) for row in rows]

    def regions(self) -> list[str]:
        return sorted(file.name.removeprefix(self.name) for file in MEMORY.glob(f"{self.name}*"))


@pytest_asyncio.fixture(loop_scope="module")
async def shared(address: str) -> AsyncIterator[Shared]:
    found = Shared(address)
    yield found
    await found.part.close()
    assert found.regions() == []


async def test_large_inputs_are_read_where_the_node_put_them(shared: Shared) -> None:
    await shared.call([LARGE])
    await shared.call([LARGE[1:], b""], [b"small", LARGE])
    assert shared.regions() == ["-1"]


async def test_small_inputs_of_an_emulated_slice_go_over_the_wire(shared: Shared) -> None:
    await shared.call([b"small"])
    assert shared.regions() == []


async def test_what_is_larger_than_the_limit_goes_to_an_emulated_slice_over_the_wire(
    address: str,
) -> None:
    small = Shared(address, limit_bytes=len(LARGE) // 2)
    await small.call([LARGE])
    assert small.regions() == []
    await small.part.close()


async def test_an_emulated_slice_knows_its_regions_until_they_are_given_back(
    address: str, shared: Shared
) -> None:
    await shared.call([LARGE])
    name = f"{shared.name}-1"
    async with grpc.aio.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        status = triton.SystemSharedMemoryStatusRequest(name=name)
        known = (await stub.SystemSharedMemoryStatus(status)).regions[name]
        assert (known.key, known.offset, known.byte_size) == (f"/{name}", 0, SMALLEST)
        await stub.SystemSharedMemoryUnregister(
            triton.SystemSharedMemoryUnregisterRequest(name=name)
        )
        assert not (await stub.SystemSharedMemoryStatus(status)).regions


@pytest.mark.parametrize("key", ["/not-there", "/../etc/passwd", "/..", ""])
async def test_a_region_that_is_none_is_refused(address: str, key: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = triton.SystemSharedMemoryRegisterRequest(name="x", key=key, byte_size=1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.SystemSharedMemoryRegister(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(("offset", "size"), [(0, 101), (-1, 1), (100, 1), (50, -10)])
async def test_a_tensor_beyond_its_region_is_refused(address: str, offset: int, size: int) -> None:
    name = f"{PREFIX}test-{token_hex(6)}"
    (MEMORY / name).write_bytes(bytes(100))
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            await stub.SystemSharedMemoryRegister(
                triton.SystemSharedMemoryRegisterRequest(name=name, key=name, byte_size=100)
            )
            request = triton.ModelInferRequest(model_name="quick")
            tensor = request.inputs.add(name="INPUT", datatype="BYTES", shape=(1, 1))
            tensor.parameters["shared_memory_region"].string_param = name
            tensor.parameters["shared_memory_offset"].int64_param = offset
            tensor.parameters["shared_memory_byte_size"].int64_param = size
            with pytest.raises(grpc.aio.AioRpcError, match="Invalid offset"):
                await stub.ModelInfer(request)
    finally:
        (MEMORY / name).unlink()
