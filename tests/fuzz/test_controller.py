"""The controller's two doors: no peer, however strange, brings it down or makes its books wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from esg.controller.durability.recovery import deciding
from esg.controller.live import LiveController
from esg.core.scheduler.invariants import check
from esg.core.scheduler.scheduler import build_scheduler
from esg.errors import Rejected
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.settings import ControllerSettings
from tests.fuzz.budget import fuzzed, within_bounds
from tests.fuzz.messages import any_message
from tests.support.controller_peers import greeting, joined, submission
from tests.support.small_catalog import SMALL

A_WHILE = 20
"""Turns of the loop in which everything that was said has been heard."""

well_behaved = st.sampled_from(
    [
        submission("r1"),
        submission("r2", "pair", payload=b"a picture"),
        submission("r3", slo_us=10**9, deadline_us=10**9),
        wire.GatewayNote(follow="r1"),
        wire.GatewayNote(cancel="r2"),
    ]
)
gateway_notes = st.lists(st.one_of(well_behaved, any_message(wire.GatewayNote)), max_size=6)
tasks = st.sampled_from(["t1", "t2", "t3", ""])
invoker_notes = st.lists(
    st.one_of(
        st.sampled_from([greeting(), joined()]),
        st.builds(
            lambda task: wire.InvokerNote(finished=wire.TaskFinished(task=task, running_us=9)),
            tasks,
        ),
        any_message(wire.InvokerNote),
    ),
    max_size=6,
)


async def said(messages: Sequence[Any]) -> AsyncIterator[Any]:
    """One after the other, and then silence."""
    for message in messages:
        yield message
        for _ in range(A_WHILE):
            await asyncio.sleep(0)


async def heard(served: Awaitable[None]) -> None:
    """Whatever the controller says; a refusal is an answer too."""
    with suppress(Rejected):
        await served


async def write(answer: Any) -> None:
    answer.SerializeToString()


async def spoken_to(gateway: list[Any], invoker: list[Any], *, polite: bool) -> None:
    own = ControllerSettings(prewarm=True)
    scheduler = build_scheduler(SMALL, deciding(own))
    live = LiveController(scheduler, own, None, iter(range(10**9)).__next__)
    first = [greeting(), joined()] if polite else []
    to_controller = [wire.FromInvoker(notes=[note]) for note in [*first, *invoker]]
    asked = [wire.FromGateway(notes=[note]) for note in gateway]
    await asyncio.gather(
        heard(live.invokers.attach(said(to_controller), write)),
        heard(live.gateways.admit(said(asked), write)),
    )
    for _ in range(A_WHILE):
        await asyncio.sleep(0)
    if live.driver.failed.done():
        live.driver.failed.result()
    check(live.driver.scheduler)
    live.driver.failed.cancel()


@fuzzed()
@given(gateway_notes, invoker_notes, st.booleans())
def test_peers_may_say_anything(gateway: list[Any], invoker: list[Any], polite: bool) -> None:
    with within_bounds():
        asyncio.run(spoken_to(gateway, invoker, polite=polite))
