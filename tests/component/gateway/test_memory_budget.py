"""The budget of bytes that clients may have a gateway hold. attack: B3"""

import asyncio

import pytest

from esg.gateway.memory_budget import MemoryBudget
from esg.runtime.rpc.status import Exhausted
from tests.support.waiting import LIMIT_S


def test_a_client_holds_so_much_and_all_together_so_much() -> None:
    budget = MemoryBudget(per_client=10, in_all=15)
    alice = budget.reserve("alice", 10)
    with pytest.raises(Exhausted, match="of alice or of all clients") as refused:
        alice.grow(1)
    assert refused.value.retry_after_us
    with pytest.raises(Exhausted):
        budget.reserve("bob", 6)
    bob = budget.reserve("bob", 5)
    alice.release()
    alice.release()
    bob.grow(5)
    assert budget.held == 10


async def test_those_who_wait_are_served_in_the_order_of_each_client() -> None:
    budget = MemoryBudget(per_client=10, in_all=20)
    first = budget.reserve("alice", 8)
    large = asyncio.create_task(budget.reserve_when_free("alice", 9, LIMIT_S))
    small = asyncio.create_task(budget.reserve_when_free("alice", 1, LIMIT_S))
    (await budget.reserve_when_free("bob", 10, LIMIT_S)).release()
    assert not small.done()  # it would fit, but the other one was there before
    first.release()
    held = await large
    (await small).release()
    held.release()
    assert budget.held == 0


async def test_who_waits_too_long_is_refused_and_in_nobodys_way() -> None:
    budget = MemoryBudget(per_client=10, in_all=10)
    held = budget.reserve("alice", 5)
    with pytest.raises(Exhausted):
        await budget.reserve_when_free("alice", 10, 0.01)
    (await budget.reserve_when_free("alice", 5, LIMIT_S)).release()
    held.release()
    assert budget.held == 0


async def test_who_stops_waiting_in_the_moment_it_is_served_holds_nothing() -> None:
    budget = MemoryBudget(per_client=10, in_all=10)
    held = budget.reserve("alice", 10)
    waiting = asyncio.create_task(budget.reserve_when_free("alice", 10, LIMIT_S))
    await asyncio.sleep(0)
    held.release()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.held == 0
