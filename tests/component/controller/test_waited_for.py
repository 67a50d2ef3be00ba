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
        (first,) = await node.hears("start")
        assert [job.waited_for for job in first.start.jobs] == [False]
        assert first.start.jobs[0].inputs[0].payload
        node.say(finished(first.start.task))
        second = (await node.hears("start", 2))[1]
        while not second.start.jobs[0].publish:
            node.say(finished(second.start.task))
            second = (await node.hears("start", 3))[2]
        assert [job.waited_for for job in second.start.jobs] == [not later]
