import asyncio

import pytest

from esg.errors import Rejected
from esg.runtime.rpc.batched_sender import BatchedSender


async def test_messages_that_are_ready_together_leave_together() -> None:
    outbox = BatchedSender[int]()
    outbox.put(1)
    outbox.put(2)
    groups = outbox.groups()
    assert await anext(groups) == [1, 2]
    outbox.put(3)
    assert await anext(groups) == [3]


async def test_waiting_batched_sender_gets_what_comes_later() -> None:
    outbox = BatchedSender[int]()
    waiting = asyncio.ensure_future(anext(outbox.groups()))
    await asyncio.sleep(0)
    assert not waiting.done()
    outbox.put(1)
    assert await waiting == [1]


async def test_messages_of_the_same_turn_of_the_loop_leave_together() -> None:
    outbox = BatchedSender[int]()
    groups = outbox.groups()
    waiting = asyncio.ensure_future(anext(groups))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(outbox.put, 2)
    outbox.put(1)
    assert await waiting == [1, 2]


async def test_large_groups_are_split_in_order() -> None:
    outbox = BatchedSender[int]()
    for number in range(5):
        outbox.put(number)
    outbox.close()
    assert [group async for group in outbox.groups(limit=2)] == [[0, 1], [2, 3], [4]]
    assert len(outbox) == 0


async def test_a_closed_outbox_still_sends_what_it_has() -> None:
    outbox = BatchedSender[int]()
    outbox.put(1)
    outbox.close()
    assert len(outbox) == 1
    assert [group async for group in outbox.groups()] == [[1]]


async def test_closing_ends_the_wait() -> None:
    outbox = BatchedSender[int]()
    waiting = asyncio.ensure_future(_all(outbox))
    await asyncio.sleep(0)
    outbox.close()
    assert await waiting == []


async def _all(outbox: BatchedSender[int]) -> list[list[int]]:
    return [group async for group in outbox.groups()]


async def test_lazy_messages_go_along_with_the_next() -> None:
    outbox = BatchedSender[int]()
    groups = outbox.groups()
    waiting = asyncio.ensure_future(anext(groups))
    await asyncio.sleep(0)
    outbox.put_lazily(1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    outbox.put(2)
    assert await waiting == [1, 2]


async def test_lazy_messages_leave_after_a_moment_all_the_same() -> None:
    outbox = BatchedSender[int]()
    groups = outbox.groups()
    for number in (1, 2):
        outbox.put_lazily(number)
        assert await asyncio.wait_for(anext(groups), 60) == [number]


async def test_a_stream_ends_when_all_is_read_and_sent() -> None:
    outbox = BatchedSender[int]()

    async def read() -> None:
        outbox.put(1)

    async with outbox.while_reading(read()):
        assert await _all(outbox) == [[1]]


async def test_a_stream_ends_with_what_was_wrong_in_reading() -> None:
    outbox = BatchedSender[int]()

    async def read() -> None:
        outbox.put(1)
        raise Rejected("no such note")

    with pytest.raises(Rejected, match="no such note"):
        async with outbox.while_reading(read()):
            assert await _all(outbox) == [[1]]


async def test_reading_ends_when_nothing_is_sent_any_more() -> None:
    outbox = BatchedSender[int]()
    reading, over = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        try:
            reading.set()
            await asyncio.Event().wait()
        finally:
            over.set()

    async with outbox.while_reading(read()):
        await reading.wait()
    await asyncio.wait_for(over.wait(), 60)
