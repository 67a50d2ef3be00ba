"""Cold starts as they were measured: loading ahead begins as early as they need, not as profiled.

`detect` is said to take 200 ms to load.
"""

from collections.abc import Callable

import pytest

from esg.core.messages.events import InstanceReady
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import ms, seconds
from tests.support.desk import Desk, arrived, finished, joined


@pytest.mark.parametrize(("follows", "lead_us"), [(True, ms(500)), (False, ms(200))])
def test_loading_ahead_begins_as_early_as_loading_was_seen_to_take(
    open_desk: Callable[..., Desk], follows: bool, lead_us: int
) -> None:
    desk = open_desk(settings=SchedulerSettings(prewarm=True, follow_profiles=follows))
    loaded = InstanceReady(invoker="i0", slice=0, function="detect", loading_us=ms(500))
    found = InstanceReady(invoker="i0", slice=1, function="detect")
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(500), loaded).at(ms(550), found)
    desk.at(ms(600), finished("t1"))
    desk.at(seconds(10), arrived("r2"))
    assert desk.next_wake == seconds(20) - lead_us
