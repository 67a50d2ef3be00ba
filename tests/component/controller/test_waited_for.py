"""Orders say whose results somebody waits for: what will be fetched later must outlive more."""

import pytest

from tests.support.controller_peers import (
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    running_controller,
    submission,
)
from tests.support.waiting import until


@pytest.mark.parametrize("later", [False, True])
async def test_the_last_stages_order_says_whether_its_result_is_waited_for(later: bool) -> None:
    async with (
        running_controller() as controller,
        gateway(controller) as door,
        invoker(controller) as node,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1", "photo", fetched_later=later))
        orders = []
        for number in (1, 2, 3):
            orders.append((await node.hears("start", number))[-1].start)
            node.say(finished(orders[-1].task))
        waited_for = [job.waited_for for order in orders for job in order.jobs]
        assert waited_for == [False, False, not later]
        assert orders[0].jobs[0].inputs[0].payload
