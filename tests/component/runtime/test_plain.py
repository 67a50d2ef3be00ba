"""Plain text stays on this machine, unless somebody insists."""

import subprocess
import sys

import pytest

from esg.errors import Rejected
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.server import Server
from esg.runtime.security.plain import check_calling, check_listening, check_redis
from tests.support.running_gateway import surroundings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "mesh.example.com"])
async def test_a_server_does_not_listen_to_others_without_tls(host: str) -> None:
    server = Server()
    with pytest.raises(Rejected, match=rf"would listen on {host} without TLS; set tls_ca"):
        await server.start(host, 0, [])
    await server.stop(0)


def test_server_that_insists_may_listen_without_tls() -> None:
    check_listening("0.0.0.0", insecure=True)


@pytest.mark.parametrize("address", ["10.0.0.7:50052", "controller:50052", "[2001:db8::1]:1"])
def test_other_machines_are_not_called_without_tls(address: str) -> None:
    with pytest.raises(Rejected, match="without TLS"):
        channel(address)
    check_calling(address, insecure=True)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/run/x.sock"])
def test_this_machine_may_be_called(address: str) -> None:
    check_calling(address, insecure=False)


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("redis://127.0.0.1:6379/0", True),
        ("redis://localhost", True),
        ("redis://", True),
        ("unix:///run/redis.sock", True),
        ("rediss://cache.example.com:6380/0", True),
        ("redis://cache.example.com:6379/0", False),
        ("redis://:secret@10.0.0.7/0", False),
    ],
)
def test_redis_elsewhere_needs_tls_too(url: str, fine: bool) -> None:
    check_redis(url, insecure=True)
    if fine:
        check_redis(url, insecure=False)
    else:
        with pytest.raises(Rejected, match="write rediss://") as refused:
            check_redis(url, insecure=False)
        assert "secret" not in str(refused.value)


def test_listening_is_checked_before_anything_else_of_a_process(redis_url: str) -> None:
    """A gateway for everyone ends at once, and its last words say what to set."""
    variables = surroundings("127.0.0.1:1", redis_url, 0.0, {"host": "0.0.0.0"})
    ended = subprocess.run(
        [sys.executable, "-m", "esg.gateway"],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        "error: gateway: would listen on 0.0.0.0 without TLS; set tls_ca"
    )
    assert "ESG_INSECURE=true" in ended.stderr


def test_the_loopback_may_be_listened_on() -> None:
    check_listening("127.0.0.1", insecure=False)
