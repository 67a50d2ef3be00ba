"""Asking a real server, on the loopback, whether it is well; as a container's health check does."""

import os
import subprocess
import sys
from asyncio import to_thread
from pathlib import Path

import pytest

from esg.runtime.rpc.server import Server
from esg.runtime.security.authority import make_certificates
from esg.runtime.security.policy import between_services
from esg.runtime.security.tls import Security
from esg.runtime.settings import CommonSettings
from tests.support.paths import ROOT


async def probed(address: str, folder: Path, **more: str) -> tuple[int, str]:
    """The exit code, and what is printed, for a service that has written this address down."""
    ready = folder / "serving-at"
    if address:
        ready.write_text(address, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ESG_")}
    environ = {**kept, "ESG_READY_FILE": str(ready), **more}
    command = [sys.executable, "-S", "-m", "esg.runtime.rpc.probe"]
    ran = await to_thread(
        subprocess.run, command, cwd=ROOT, env=environ, capture_output=True, text=True
    )
    return ran.returncode, ran.stdout + ran.stderr


async def serving(security: Security | None = None) -> tuple[Server, int]:
    server = Server(security=security or Security())
    return server, await server.start("127.0.0.1", 0, [])


async def test_a_service_that_serves_is_well_until_it_is_drained(tmp_path: Path) -> None:
    server, port = await serving()
    assert await probed(f"0.0.0.0:{port}", tmp_path) == (0, f"127.0.0.1:{port}: serving\n")
    await server.drain()
    assert await probed(f"127.0.0.1:{port}", tmp_path) == (1, f"127.0.0.1:{port}: not serving\n")
    await server.stop(0)
    code, said = await probed(f"127.0.0.1:{port}", tmp_path)
    assert (code, "refused" in said) == (1, True)


async def test_a_service_that_has_not_said_where_it_is_is_not_well(tmp_path: Path) -> None:
    code, said = await probed("", tmp_path)
    assert (code, said) == (1, f"not serving yet: ESG_READY_FILE, '{tmp_path}/serving-at', "
                               "is not there\n")  # fmt: skip


@pytest.mark.parametrize("how", ["environment", "file"])
async def test_a_service_with_tls_is_asked_with_its_own_certificate(
    how: str, tmp_path: Path
) -> None:
    make_certificates(tmp_path, hosts=(), days=1)
    own = {
        "tls_ca": str(tmp_path / "ca.pem"),
        "tls_certificate": str(tmp_path / "controller.pem"),
        "tls_key": str(tmp_path / "controller.key"),
    }
    server, port = await serving(between_services(CommonSettings(**own)))
    if how == "environment":
        settings = {f"ESG_{name.upper()}": value for name, value in own.items()}
    else:
        lines = [f'{name} = "{value}"\n' for name, value in own.items()]
        (tmp_path / "settings.toml").write_text("[common]\n" + "".join(lines), "utf-8")
        settings = {"ESG_SETTINGS": str(tmp_path / "settings.toml")}
    assert (await probed(f"127.0.0.1:{port}", tmp_path, **settings))[0] == 0
    assert (await probed(f"127.0.0.1:{port}", tmp_path))[0] == 1
    await server.stop(0)
