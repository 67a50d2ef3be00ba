"""What tests of several packages share: desks for stories, and a real Redis.

Desks are for tests that tell stories; each story is checked and retold when its test is over.
"""

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from esg.core.scheduler.settings import SchedulerSettings
from tests.support.desk import Desk
from tests.support.redis_server import redis_server as redis_server
from tests.support.redis_server import redis_url as redis_url

# A shell's background jobs ignore Ctrl-C, and those of nohup that the terminal is closed; so would
# all processes that tests start and interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Always the same examples, however long one takes on a busy machine; others with `make fuzz`
settings.register_profile("here", deadline=None, derandomize="FUZZ_EXAMPLES" not in os.environ)
settings.load_profile("here")


@pytest.fixture
def open_desk() -> Iterator[Callable[..., Desk]]:
    """Desks with settings of their own."""
    desks: list[Desk] = []

    def make(**settings: object) -> Desk:
        desks.append(Desk(**settings))  # type: ignore[arg-type]
        return desks[-1]

    yield make
    for desk in desks:
        desk.close()


@pytest.fixture
def desk(open_desk: Callable[..., Desk]) -> Desk:
    """A scheduler that does not pre-warm, so that all its orders are about requests."""
    return open_desk()


@pytest.fixture
def foreseeing_desk(open_desk: Callable[..., Desk]) -> Desk:
    """A scheduler that loads models ahead of their use."""
    return open_desk(settings=SchedulerSettings(prewarm=True))
