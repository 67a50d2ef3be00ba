"""What a secure mesh keeps for its user, and how its processes are asked whether they are well."""

import shlex
import subprocess
from dataclasses import asdict
from pathlib import Path

from esg.local.health import is_serving
from esg.local.secure import SecureFolder, probing
from esg.runtime.rpc.server import Server
from esg.runtime.security.authority import make_certificates
from esg.runtime.security.policy import public_door
from esg.runtime.security.tokens import read_entries, whose
from esg.runtime.settings import CommonSettings, GatewaySettings

LOOPBACK = "127.0.0.1"


def token_in(folder: SecureFolder) -> str:
    """As a shell has it after `. client.env`."""
    script = f'. {shlex.quote(str(folder.client_env))} && printf %s "$ESG_TOKEN"'
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout


def test_a_shell_gets_a_token_that_is_known_and_stays(tmp_path: Path) -> None:
    folder = SecureFolder(tmp_path / "it's here")
    folder.make(LOOPBACK)
    folder.say_how_to_call("0.0.0.0:50051")
    token = token_in(folder)
    entry = whose(token, read_entries(folder.path / "tokens.toml").values())
    assert entry is not None
    assert (entry.name, entry.operator) == ("me", True)
    assert "ESG_GATEWAY=127.0.0.1:50051" in folder.client_env.read_text("utf-8")
    private = [folder.client_env, folder.path / "client.token", folder.path / "tokens.toml"]
    assert {file.stat().st_mode & 0o077 for file in private} == {0}

    folder.make(LOOPBACK)
    folder.say_how_to_call("127.0.0.1:7")
    assert token_in(folder) == token


def test_a_token_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    folder = SecureFolder(tmp_path)
    folder.make(LOOPBACK)
    before = (tmp_path / "client.token").read_text("utf-8")
    (tmp_path / "tokens.toml").write_text("", "utf-8")
    folder.make(LOOPBACK)
    assert (tmp_path / "client.token").read_text("utf-8") != before


async def test_a_gateway_with_a_certificate_for_the_public_is_asked_all_the_same(
    tmp_path: Path,
) -> None:
    """Of an authority that the mesh does not know, for a name that is not where it listens."""
    make_certificates(tmp_path / "mesh", hosts=(), days=1)
    make_certificates(tmp_path / "public", hosts=["mesh.example.com"], days=1)
    common = CommonSettings(
        tls_ca=str(tmp_path / "mesh" / "ca.pem"),
        tls_certificate=str(tmp_path / "mesh" / "gateway.pem"),
        tls_key=str(tmp_path / "mesh" / "gateway.key"),
    )
    own = GatewaySettings(
        tls_certificate=str(tmp_path / "public" / "gateway.pem"),
        tls_key=str(tmp_path / "public" / "gateway.key"),
        tls_client_ca=str(tmp_path / "public" / "ca.pem"),
    )
    server = Server(security=public_door(common, own))
    address = f"{LOOPBACK}:{await server.start(LOOPBACK, 0, [])}"
    settings = {"common": asdict(common), "gateway": asdict(own)}
    assert await is_serving(address, probing("gateway", settings))
    assert not await is_serving(address, probing("controller", settings))
    await server.stop(0)
