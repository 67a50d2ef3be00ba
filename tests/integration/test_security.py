"""A secure mesh, as `esg up --secure` starts it: TLS and tokens, and Redis behind TLS too."""

import asyncio
import json
import shlex
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from esg.cli.program import app
from esg.client import (
    AsyncClient,
    Credentials,
    Forbidden,
    NotFound,
    NotTrusted,
    PipelineStage,
    Unauthenticated,
    Unavailable,
)
from esg.console.entry import run_app
from esg.local.supervisor import Mesh
from esg.runtime.security.authority import make_certificates
from esg.runtime.security.tokens import (
    TokenEntry,
    digest_of,
    new_token,
    read_entries,
    write_entries,
)
from tests.integration.conftest import options
from tests.support.mesh_expectations import photo
from tests.support.redis_server import RedisServer
from tests.support.waiting import until

PASSWORD = "a-password-that-nobody-else-would-use"
CHUNK_BYTES = 2**16


class Secure:
    """A mesh, and the credentials to call it with."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.folder = mesh.directory.path / "security"
        self.tokens = {"me": (self.folder / "client.token").read_text("utf-8").strip()}
        known = read_entries(self.folder / "tokens.toml")
        for name in ("alice", "bob"):
            self.tokens[name] = new_token()
            known[name] = TokenEntry(name=name, digest=digest_of(self.tokens[name]))
        write_entries(self.folder / "tokens.toml", known)

    def client(self, name: str, **others: str) -> AsyncClient:
        given = {
            "token": self.tokens.get(name, name),
            "ca": str(self.folder / "ca.pem"),
            "certificate": str(self.folder / "client.pem"),
            "key": str(self.folder / "client.key"),
            **others,
        }
        return AsyncClient(self.mesh.gateway, patience_s=2.0, credentials=Credentials(**given))


@pytest.fixture
async def redis_with_tls(tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a Redis that wants TLS and a password: a real one, behind a door that has both."""
    make_certificates(tmp_path / "tls", hosts=(), days=1)
    server = RedisServer(tmp_path / "redis")
    server.start()
    with server.client() as admin:
        admin.config_set("requirepass", PASSWORD)
    socket = server.url.removeprefix("unix://")

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(socket)
        ways = (carry(reader, inner_writer), carry(inner_reader, writer))
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, inner_writer):
            end.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls" / "redis.pem", tmp_path / "tls" / "redis.key")
    door = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = door.sockets[0].getsockname()[1]
    authority = tmp_path / "tls" / "ca.pem"
    options = f"ssl_ca_certs={authority}&ssl_server_name=redis.esg"
    yield f"rediss://:{PASSWORD}@localhost:{port}/0?{options}"
    door.close()
    server.kill()


@pytest.fixture
async def secure(redis_with_tls: str, catalog: Path, tmp_path: Path) -> AsyncIterator[Secure]:
    chosen = options(catalog, secure=True, redis_url=redis_with_tls, log_level="debug", nodes=1)
    async with Mesh(chosen, tmp_path / "m") as mesh:
        yield Secure(mesh)


async def test_a_secure_mesh_serves_whom_it_knows_and_nobody_else(secure: Secure) -> None:
    """One after the other, because starting such a mesh takes seconds."""
    await check_that_requests_go_through(secure)
    await check_that_a_shell_is_told_how_to_call(secure)
    await check_that_strangers_are_refused(secure)
    await check_that_what_is_mine_is_mine(secure)
    await check_that_new_certificates_are_taken_up(secure)
    check_that_secrets_are_not_told(secure)


async def check_that_requests_go_through(secure: Secure) -> None:
    async with secure.client("me") as mine, secure.client("alice") as alice:
        assert (await mine.submit("photo", b"a picture")).outputs == photo(b"a picture")
        async with alice.stream() as stream:
            results = await asyncio.gather(
                *(stream.submit("photo", b"%d" % number) for number in range(8))
            )
        assert [r.outputs for r in results] == [photo(b"%d" % number) for number in range(8)]
        request = await alice.submit_async("photo", b"later", request_id="later")
        assert (await alice.fetch(request)).outputs == photo(b"later")


async def check_that_a_shell_is_told_how_to_call(secure: Secure) -> None:
    """With what `client.env` says, every command of the mesh gets in; without, none does."""
    payload = secure.mesh.directory.path / "picture"
    payload.write_bytes(b"a picture")
    run = "from esg.cli.main import run; raise SystemExit(run())"
    esg = f"{shlex.quote(sys.executable)} -P -c '{run}'"
    submit = f"{esg} submit photo {shlex.quote(str(payload))} --json"
    env_file = shlex.quote(str(secure.mesh.client_env))
    for script, code in ((f". {env_file} && {submit}", 0), (f"{submit} --gateway x.example:1", 2)):
        shell = await asyncio.create_subprocess_exec(
            "sh", "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        said, errors = await shell.communicate()
        assert shell.returncode == code, errors.decode()
        if code == 0:
            assert json.loads(said)["requests"][0]["outcome"] == "done"
        else:
            assert b"would call x.example:1 without TLS; say whom to trust" in errors


async def check_that_strangers_are_refused(secure: Secure) -> None:
    strangers = make_strangers(secure)
    for kind, words, client in strangers:
        async with client:
            with pytest.raises(kind, match=words):
                await client.submit("photo", b"a picture")


def make_strangers(secure: Secure) -> list[tuple[type[Exception], str, AsyncClient]]:
    theirs = secure.mesh.directory.path / "theirs"
    make_certificates(theirs, hosts=(), days=1)
    their_own = {"certificate": str(theirs / "client.pem"), "key": str(theirs / "client.key")}
    broken_off = "breaks off every connection: if it speaks TLS"
    return [
        (Unauthenticated, "a token is needed here", secure.client("")),
        (Unauthenticated, "this token is not known here", secure.client("guessed")),
        (Unavailable, broken_off, secure.client("me", certificate="", key="")),
        (Unavailable, broken_off, secure.client("me", **their_own)),
        (Unavailable, broken_off, secure.client("me", ca="", certificate="", key="")),
        (NotTrusted, "that is not trusted here", secure.client("me", ca=str(theirs / "ca.pem"))),
    ]


async def check_that_what_is_mine_is_mine(secure: Secure) -> None:
    """Also after the controller has been started again, which remembers it from its journal."""
    async with secure.client("alice") as alice, secure.client("bob") as bob:
        await alice.register_application("mine", [PipelineStage("resize")], slo_ms=20_000)
        await alice.submit("mine", b"a picture", request_id="r1")
        await secure.mesh.kill("controller")
        await secure.mesh.restart("controller")
        alice._calls.patience_s = bob._calls.patience_s = 60.0
        assert "mine" in [a.name for a in await alice.list_applications()]
        assert "mine" not in [a.name for a in await bob.list_applications()]
        assert (await alice.submit("mine", b"another")).application == "mine"
        assert (await alice.get("r1")).application == "mine"
        with pytest.raises(NotFound, match="unknown application 'mine'"):
            await bob.submit("mine", b"a picture")
        with pytest.raises(NotFound, match="no request r1 is known"):
            await bob.get("r1")
        with pytest.raises(Forbidden, match="is everybody's"):
            await bob.delete_application("photo")


async def check_that_new_certificates_are_taken_up(secure: Secure) -> None:
    """An authority of another name: whoever kept the old certificates could not connect again."""
    for name in ("ca.pem", "ca.key"):
        (secure.folder / name).unlink()
    make_certificates(secure.folder, hosts=(), days=1)
    await secure.mesh.kill("controller")
    await secure.mesh.restart("controller")

    async def served() -> bool:
        async with secure.client("me") as client:
            try:
                result = await client.submit("photo", b"a picture", timeout_s=20)
            except (Unavailable, NotTrusted):
                return False
            return result.outputs == photo(b"a picture")

    await until(served)


def check_that_secrets_are_not_told(secure: Secure) -> None:
    """Not in any log, journal or record of the mesh, and not by esg status."""
    secrets = [PASSWORD, *secure.tokens.values(), *(digest_of(t) for t in secure.tokens.values())]
    told = {
        path.name: path.read_text("utf-8", "replace")
        for path in secure.mesh.directory.path.rglob("*")
        if path.is_file() and path.parent not in (secure.folder, secure.folder.parent / "theirs")
    }
    assert {"gateway.log", "controller.log", "node0.log", "mesh.json"} <= told.keys()
    assert [name for name, text in told.items() if any(secret in text for secret in secrets)] == []


async def test_status_says_how_a_secure_mesh_is_without_its_secrets(
    secure: Secure, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["status", "--json", "--dir", str(secure.mesh.directory.path)]
    code = await asyncio.to_thread(run_app, app, "esg", arguments)
    said = capsys.readouterr().out
    states = {process["name"]: process["state"] for process in json.loads(said)["processes"]}
    assert (code, set(states.values())) == (0, {"serving"})
    assert PASSWORD not in said
    assert all(token not in said for token in secure.tokens.values())
