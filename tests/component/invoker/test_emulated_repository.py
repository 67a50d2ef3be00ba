"""The models of one emulated slice, where it matters that something takes longer than the test."""

import asyncio

import grpc
import pytest

from esg.invoker.emulated.repository import Repository, RepositoryState, TritonRefusal
from esg.units import seconds
from tests.support.small_catalog import SMALL

LONG_US = seconds(3600)


def repository(*, load_us: int = 0, unload_us: int = LONG_US) -> Repository:
    """resize and label take 300 MB, detect 400, depth 500, of 1000."""
    return Repository(
        SMALL.functions, memory_mb=1000, load_us=lambda function: load_us, unload_us=unload_us
    )


def state(repository: Repository, model: str) -> RepositoryState:
    return repository.models[model].state


def test_a_warm_slice_begins_with_every_model_that_fits() -> None:
    warm = repository()
    warm.warm()
    ready = [name for name in warm.models if warm.is_ready(name)]
    assert ready == ["depth", "detect"]  # 100 MB are left, and both others take 300


async def test_a_model_that_is_being_unloaded_holds_its_memory() -> None:
    full = repository()
    for model in ("depth", "detect"):
        await full.load(model)
    await full.unload("depth")
    assert state(full, "depth") is RepositoryState.UNLOADING
    assert not full.is_settled
    with pytest.raises(TritonRefusal, match=r"300 MB wanted, 100 MB free") as caught:
        await full.load("resize")
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_model_that_is_being_unloaded_cannot_be_called() -> None:
    slow = repository()
    await slow.load("depth")
    assert slow.ready("depth").state is RepositoryState.READY
    await slow.unload("depth")
    with pytest.raises(TritonRefusal, match="has no available versions"):
        slow.ready("depth")


async def test_a_model_that_is_loaded_again_while_it_vanishes_stays() -> None:
    quick = repository(unload_us=1)
    await quick.load("depth")
    await quick.unload("depth")
    vanishing = quick.models["depth"].vanishing
    assert vanishing is not None
    await quick.load("depth")
    assert vanishing.cancelled()
    assert quick.is_ready("depth")
    assert quick.is_settled


async def test_unloading_waits_for_the_end_of_loading() -> None:
    slow = repository(load_us=1000)
    loading = asyncio.create_task(slow.load("depth"))
    await asyncio.sleep(0)
    assert state(slow, "depth") is RepositoryState.LOADING
    await slow.unload("depth")
    assert loading.done()
    assert state(slow, "depth") is RepositoryState.UNLOADING


async def test_a_load_that_is_given_up_leaves_nothing_behind() -> None:
    slow = repository(load_us=LONG_US)
    loading = asyncio.create_task(slow.load("depth"))
    await asyncio.sleep(0)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert state(slow, "depth") is RepositoryState.UNAVAILABLE
    for model in ("detect", "resize", "label"):  # all of the 1000 MB
        slow.models[model].state = RepositoryState.READY
    with pytest.raises(TritonRefusal, match=r"500 MB wanted, 0 MB free"):
        await slow.load("depth")
