"""A real Redis for tests: private, in memory, reached through a socket in a temporary directory.

`redis_url` is the one server of the whole session, emptied before each test. A test that stops
and starts a server has one of its own, from `RedisServer`.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from esg.local.redis_server import server_command
from tests.support.waiting import LIMIT_S

"""Far more than a server needs to start or end, on the slowest machine."""


class RedisServer:
    def __init__(self, directory: Path) -> None:
        self._command, self.url = server_command(directory)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, f"it ended at once: {self._command}"
            assert time.monotonic() < deadline, f"it never answered: {self._command}"
            time.sleep(0.005)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)
            self._process = None

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def client(self) -> Redis:
        """For looking inside; close it (`with`) when done."""
        return Redis.from_url(self.url, socket_timeout=LIMIT_S)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The server of the session. Tests that run side by side in one process must not share it."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of an empty Redis."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url
