"""A live node for the tests that tell it what to do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.live_node import LiveNode, live_node


@pytest.fixture
async def live(redis_url: str, tmp_path: Path) -> AsyncIterator[LiveNode]:
    async with live_node(redis_url, tmp_path / "store") as found:
        yield found
