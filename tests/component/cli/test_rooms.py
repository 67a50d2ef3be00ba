"""`esg rooms`: every container of a mesh finds its own secrets, and nobody else's."""

import io
import os
import shutil
import sys
import tarfile
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from esg.local.rooms import ROOMS
from esg.runtime.security import authority
from esg.runtime.security.authority import names_in
from esg.runtime.security.tokens import read_entries, whose
from tests.component.cli.conftest import Run


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in directory.rglob("*")
        if file.is_file()
    }


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def fill(esg: Run, tmp_path: Path) -> Any:
    def filled(*options: object) -> Path:
        ran = esg("rooms", "fill", "--dir", tmp_path / "rooms", *options)
        assert (ran.code, ran.err) == (0, "")
        return tmp_path / "rooms"

    return filled


def test_a_room_has_what_its_service_needs_and_nothing_of_another(fill: Any) -> None:
    directory = fill()
    for name, files in ROOMS.items():
        more = {"tokens.toml"} if name == "gateway" else set()
        room = directory / name
        assert {file.name for file in room.iterdir()} == {*files, *more}, name
        assert mode(room) == 0o700, name
        for file in room.iterdir():
            assert mode(file) == 0o600, file
    keys = {file.name for name in ROOMS for file in (directory / name).glob("*.key")}
    assert keys == {f"{name}.key" for name in ROOMS if name != "client"}


def test_rooms_whose_authority_is_lost_are_not_taken_for_another_hosts(
    fill: Any, esg: Run, tmp_path: Path
) -> None:
    directory = fill()
    shutil.rmtree(directory / "authority")
    ran = esg("rooms", "fill", "--dir", directory)
    assert ran.code == 2
    assert "cannot be renewed" in ran.err


def test_the_gateway_knows_the_clients_token(fill: Any) -> None:
    directory = fill()
    token = (directory / "client" / "token").read_text("utf-8").strip()
    entry = whose(token, read_entries(directory / "gateway" / "tokens.toml").values())
    assert entry is not None
    assert (entry.name, entry.operator) == ("me", True)


def test_filled_again_everything_stays_as_it_is(esg: Run, fill: Any) -> None:
    directory = fill("--hosts", "mesh.example.com, 10.0.0.7")
    esg("tokens", "add", "alice", "--file", directory / "gateway" / "tokens.toml")
    before = contents(directory)
    fill("--hosts", "mesh.example.com,10.0.0.7")
    fill()
    assert contents(directory) == before


def test_a_new_name_makes_a_new_certificate_of_the_gateway_alone(fill: Any) -> None:
    before = contents(fill())
    directory = fill("--hosts", "mesh.example.com")
    changed = {name for name, content in contents(directory).items() if before[name] != content}
    assert {Path(name).name for name in changed} == {"gateway.pem", "gateway.key"}
    assert "mesh.example.com" in names_in(directory / "gateway" / "gateway.pem")


@pytest.mark.parametrize(("age_days", "renewed"), [(59, False), (61, True)])
def test_certificates_are_renewed_in_the_last_third_of_their_time(
    age_days: int, renewed: bool, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(fill("--days", "90"))
    later = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(days=age_days))
    monkeypatch.setattr(authority, "datetime", later)
    directory = fill("--days", "90")
    changed = {name for name, content in contents(directory).items() if before[name] != content}
    kept = {
        name for name in before if Path(name).name in ("ca.pem", "ca.key", "token", "tokens.toml")
    }
    assert changed == (before.keys() - kept if renewed else set())


def test_what_was_damaged_is_made_again(fill: Any) -> None:
    directory = fill()
    (directory / "authority" / "redis.key").write_text("no key")
    (directory / "invoker" / "invoker.key").unlink()
    before = contents(directory)
    fill()
    after = contents(directory)
    assert after["redis/redis.key"] == after["authority/redis.key"] != b"no key"
    assert after["redis/redis.pem"] != before["redis/redis.pem"]
    assert after["invoker/invoker.key"] == before["authority/invoker.key"]


def test_a_service_that_is_another_user_reads_its_room_by_its_group(fill: Any) -> None:
    directory = fill("--group", f"redis={os.getgid()}")
    assert (mode(directory / "redis"), mode(directory / "gateway")) == (0o750, 0o700)
    for file in (directory / "redis").iterdir():
        assert (mode(file), file.stat().st_gid) == (0o640, os.getgid())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may hand files to everyone")
def test_a_group_that_one_is_not_in_is_refused(esg: Run, tmp_path: Path) -> None:
    ran = esg("rooms", "fill", "--dir", tmp_path, "--group", "redis=1")
    assert ran.code == 2
    assert "be in the group 1 (group_add in docker-compose.yml)" in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("group", "words"),
    [("redis", "as in redis=999"), ("redis=x", "as in redis=999"), ("reds=9", "redis")],
)
def test_malformed_groups_are_refused(esg: Run, tmp_path: Path, group: str, words: str) -> None:
    ran = esg("rooms", "fill", "--dir", tmp_path / "rooms", "--group", group)
    assert (ran.code, words in ran.err) == (2, True)
    assert not (tmp_path / "rooms").exists()


class Hosts:
    """The commands of two hosts, with what goes from one to the other."""

    def __init__(self, esg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self._esg, self._monkeypatch = esg, monkeypatch

    def give(self, directory: Path, name: str) -> bytes:
        out = io.BytesIO()
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", SimpleNamespace(buffer=out, flush=lambda: None))
            assert self._esg("rooms", "give", name, "--dir", directory).code == 0
        return out.getvalue()

    def take(self, directory: Path, name: str, archive: bytes) -> Any:
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(archive)))
            return self._esg("rooms", "take", name, "--dir", directory)


@pytest.fixture
def hosts(esg: Run, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(esg, monkeypatch)


def test_a_room_goes_to_another_host_which_makes_no_authority_of_its_own(
    esg: Run, hosts: Hosts, fill: Any, tmp_path: Path
) -> None:
    first, second = fill(), tmp_path / "second"
    ran = hosts.take(second, "invoker", hosts.give(first, "invoker"))
    assert (ran.code, ran.err) == (0, "")
    wanted = {
        f"invoker/{name}": (first / "invoker" / name).read_bytes() for name in ROOMS["invoker"]
    }
    assert contents(second) == wanted
    assert "left alone" in esg("rooms", "fill", "--dir", second).out
    assert contents(second) == wanted


def test_a_client_elsewhere_is_given_its_token_and_the_authoritys_certificate(
    hosts: Hosts, fill: Any
) -> None:
    directory = fill()
    with tarfile.open(fileobj=io.BytesIO(hosts.give(directory, "client"))) as archive:
        assert archive.getnames() == ["ca.pem", "token"]


def test_a_host_with_a_mesh_of_its_own_is_told_how_to_forget_it(hosts: Hosts, fill: Any) -> None:
    directory = fill()
    before = contents(directory)
    ran = hosts.take(directory, "invoker", hosts.give(directory, "invoker"))
    assert (ran.code, "docker compose down --volumes" in ran.err) == (2, True)
    assert contents(directory) == before


def test_an_archive_is_never_unpacked_to_where_it_says(hosts: Hosts, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("../evil", "ca.pem"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    ran = hosts.take(tmp_path / "rooms", "invoker", out.getvalue())
    assert (ran.code, "invoker.key, invoker.pem: not in what was given" in ran.err) == (2, True)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("archive", [b"", b"no archive at all", b"\0" * 5000])
def test_what_is_no_archive_is_refused(hosts: Hosts, tmp_path: Path, archive: bytes) -> None:
    assert hosts.take(tmp_path / "rooms", "invoker", archive).code == 2
    assert contents(tmp_path) == {}


def test_an_empty_room_cannot_be_given(esg: Run, tmp_path: Path) -> None:
    ran = esg("rooms", "give", "invoker", "--dir", tmp_path)
    assert (ran.code, "docker compose up makes it" in " ".join(ran.err.split())) == (2, True)
    ran = esg("rooms", "give", "invokr", "--dir", tmp_path)
    assert (ran.code, "invoker" in ran.err) == (2, True)
