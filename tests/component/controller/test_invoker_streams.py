"""Invokers come, go, break off and come back."""

import asyncio

import grpc

from esg.names import payload_stage
from esg.protos import controller_v1_pb2 as wire
from tests.support.controller_peers import (
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    running_controller,
    submission,
)
from tests.support.waiting import LIMIT_S, until


async def test_a_newcomer_is_welcomed_and_starts_afresh() -> None:
    async with running_controller(heartbeat_ms=321) as controller, invoker(controller) as node:
        node.say(greeting())
        (order,) = await node.hears("welcome")
        assert order.welcome == wire.Welcome(start_afresh=True, heartbeat_ms=321)


async def test_an_invoker_has_a_seat_once_it_has_joined() -> None:
    async with running_controller() as controller, invoker(controller) as node:
        node.say(greeting(), joined())
        await until(lambda: "n0" in controller.state.nodes)
        assert controller.state.nodes["n0"].vcpus == 4


async def test_orders_reach_the_invoker_and_its_news_the_scheduler() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
        assert (order.start.stage, order.start.jobs[0].request_id) == ("resize", "r1")
        assert order.start.jobs[0].publish
        assert not order.start.keep
        node.say(finished(order.start.task))
        (note,) = await door.hears("result")
        assert note.result.stages[0].node == "n0"
        (discard,) = await node.hears("discard")
        assert discard.discard == wire.Discard(request_id="r1")


async def test_first_stages_are_told_the_names_of_payloads_and_later_ones_who_keeps_what() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        door.say(*(submission(f"r{n}", "photo", content_hash=b"%d" % n) for n in range(4)))
        await door.hears("accepted", 4)
        node.say(greeting(), joined())
        inputs: dict[tuple[str, str], wire.Input] = {}
        done = 0
        while len(inputs) < 4 * 3:
            for order in (await node.hears("start", done + 1))[done:]:
                done += 1
                start = order.start
                inputs |= {(start.stage, job.request_id): job.inputs[0] for job in start.jobs}
                node.say(finished(start.task))
        for n in range(4):
            assert inputs["resize", f"r{n}"] == wire.Input(payload=payload_stage(b"%d" % n))
            output = wire.Output(stage="resize", invoker="n0")
            assert inputs["detect", f"r{n}"] == wire.Input(output=output)


async def test_an_invoker_with_another_catalog_is_refused() -> None:
    async with running_controller() as controller, invoker(controller) as node:
        node.say(greeting(catalog="another"))
        await until(lambda: node.ended)
        assert node.error is not None
        assert node.error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "same catalog" in (node.error.details() or "")


async def test_invoker_that_does_not_greet_is_refused() -> None:
    async with running_controller() as controller, invoker(controller) as node:
        node.say(joined())
        await until(lambda: node.ended)
        assert node.error is not None
        assert "greeting" in (node.error.details() or "")


async def test_two_invoker_processes_cannot_have_one_name() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        invoker(controller) as twin,
    ):
        node.say(greeting(session="s1"), joined())
        await until(lambda: controller.state.nodes)
        twin.say(greeting(session="s2"))
        await until(lambda: twin.ended)
        assert twin.error is not None
        assert twin.error.code() is grpc.StatusCode.ALREADY_EXISTS
        assert "n0" in controller.state.nodes


async def test_an_invoker_that_comes_back_in_time_keeps_what_it_runs() -> None:
    async with running_controller(rejoin_ms=60_000) as controller, gateway(controller) as door:
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
            door.say(submission("r1"))
            (order,) = await node.hears("start")
            task = order.start.task
        async with invoker(controller) as node:
            node.say(greeting())
            (welcome,) = await node.hears("welcome")
            assert not welcome.welcome.start_afresh
            running = wire.RunningTask(task=task, vcpus=1, slices=order.start.slices)
            node.say(joined(running, latest_task=1), finished(task))
            (note,) = await door.hears("result")
            assert note.result.stages[0].task == task


async def test_news_from_before_the_inventory_count() -> None:
    """A task that ended while the stream was broken is not run again."""
    async with running_controller(rejoin_ms=60_000) as controller, gateway(controller) as door:
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
            door.say(submission("r1"))
            (order,) = await node.hears("start")
        async with invoker(controller) as node:
            node.say(greeting(), finished(order.start.task), joined(latest_task=1))
            await door.hears("result")
            assert node.of("start") == []


async def test_tasks_of_a_lost_invoker_are_run_by_another() -> None:
    async with running_controller(rejoin_ms=0) as controller, gateway(controller) as door:
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
            door.say(submission("r1"))
            await node.hears("start")
        await until(lambda: not controller.state.nodes)
        async with invoker(controller) as other:
            other.say(greeting(name="n1"), joined())
            (order,) = await other.hears("start")
            assert order.start.jobs[0].request_id == "r1"


async def test_a_lost_invoker_starts_afresh_when_it_returns() -> None:
    async with running_controller(rejoin_ms=0) as controller:
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
        await until(lambda: not controller.state.nodes)
        async with invoker(controller) as node:
            node.say(greeting())
            (welcome,) = await node.hears("welcome")
            assert welcome.welcome.start_afresh


async def test_an_invoker_is_told_to_start_afresh_until_it_has_joined() -> None:
    """It may not have heard its first welcome."""
    async with running_controller(rejoin_ms=60_000) as controller:
        for _ in range(2):
            async with invoker(controller) as node:
                node.say(greeting())
                (order,) = await node.hears("welcome")
                assert order.welcome.start_afresh
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
        async with invoker(controller) as node:
            node.say(greeting())
            (order,) = await node.hears("welcome")
            assert not order.welcome.start_afresh


async def test_a_process_that_was_started_again_is_a_new_one() -> None:
    async with running_controller(rejoin_ms=60_000) as controller:
        async with invoker(controller) as node:
            node.say(greeting(session="s1"), joined())
            await until(lambda: controller.state.nodes)
        welcomes: list[wire.Order] = []
        async with asyncio.timeout(LIMIT_S):
            while not welcomes:  # it is refused until the other one's end has been noticed
                async with invoker(controller) as node:
                    node.say(greeting(session="s2"))
                    welcomes = await node.hears("welcome")
        assert welcomes[0].welcome.start_afresh
        assert not controller.state.nodes


async def test_silence_is_a_loss() -> None:
    async with running_controller(lost_after_ms=50) as controller, invoker(controller) as node:
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        await until(lambda: not controller.state.nodes)
        await until(lambda: node.ended)


async def test_invoker_that_says_goodbye_is_not_waited_for() -> None:
    async with running_controller(rejoin_ms=60_000) as controller, invoker(controller) as node:
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        node.say(wire.InvokerNote(leaving=wire.Leaving()))
        node.outbox.close()
        await until(lambda: not controller.state.nodes)


async def test_garbage_news_end_the_stream_with_a_reason() -> None:
    async with running_controller() as controller, invoker(controller) as node:
        node.say(greeting(), joined(), wire.InvokerNote())
        await until(lambda: node.ended)
        assert node.error is not None
        assert node.error.code() is grpc.StatusCode.INVALID_ARGUMENT
