"""The catalog of emulated slices, and a live node for the tests that tell it what to do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.emulated_process import write_catalog
from tests.support.live_node import LiveNode, live_node


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalog(tmp_path_factory.mktemp("catalog"))


@pytest.fixture
async def live(redis_url: str, tmp_path: Path) -> AsyncIterator[LiveNode]:
    async with live_node(redis_url, tmp_path / "store") as found:
        yield found


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The folder that a task of "gated" is given."""
    folder = tmp_path / "gate"
    folder.mkdir()
    return folder
