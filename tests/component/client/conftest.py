"""What clients are tested with: a real gateway, and a controller that plays or follows a script."""

from collections.abc import AsyncIterator

import pytest

from esg.client import AsyncClient
from tests.component.gateway.conftest import address as address
from tests.component.gateway.conftest import controller as controller
from tests.component.gateway.conftest import gateways as gateways
from tests.component.gateway.conftest import keys as keys
from tests.component.gateway.conftest import store as store


@pytest.fixture
async def mesh(address: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(address) as mesh:
        yield mesh
