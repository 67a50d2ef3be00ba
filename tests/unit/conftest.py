"""Unit tests touch nothing outside their process but files of their own: no sockets, no children.

A test that needs them belongs to tests/component, or further.
"""

import socket
import subprocess
from multiprocessing import util
from typing import Any, NoReturn

import grpc
import pytest


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("a unit test opens no socket and starts no process: see tests/component")

    for name in ("bind", "connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refused)
    monkeypatch.setattr(subprocess.Popen, "__init__", refused)
    monkeypatch.setattr(util, "spawnv_passfds", refused)
    for name in ("server", "insecure_channel", "secure_channel"):
        monkeypatch.setattr(grpc.aio, name, refused)
