"""`esg certificates` and `esg tokens`, as a person types them."""

import json
from pathlib import Path

import pytest

from esg.runtime.security.tokens import Quota, read_entries, whose
from tests.component.cli.conftest import Run


def test_a_token_is_printed_once_and_only_its_digest_is_kept(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    quota = ("--requests-per-s", 50, "--in-flight", 200, "--bytes-per-day", 10**9)
    ran = esg("tokens", "add", "alice", "--file", file, *quota)
    token = ran.out.strip()
    assert (ran.code, ran.err, token[:4]) == (0, "", "esg_")
    assert token not in file.read_text("utf-8")
    assert file.stat().st_mode & 0o077 == 0
    entry = whose(token, read_entries(file).values())
    assert entry is not None
    assert (entry.name, entry.operator) == ("alice", False)
    assert entry.quota == Quota(requests_per_s=50.0, in_flight=200, bytes_per_day=10**9)


def test_a_new_token_ends_the_old_one(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    old = esg("tokens", "add", "alice", "--file", file).out.strip()
    other = esg("tokens", "add", "bob", "--file", file, "--operator").out.strip()
    ran = esg("tokens", "add", "alice", "--file", file)
    assert (ran.code, "--replace gives it a new one" in ran.err) == (2, True)
    new = esg("tokens", "add", "alice", "--file", file, "--replace").out.strip()
    entries = read_entries(file)
    names = [getattr(whose(t, entries.values()), "name", None) for t in (old, new, other)]
    assert names == [None, "alice", "bob"]


def test_clients_are_listed_and_removed(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    rich = ("--requests-per-s", 2.5, "--bytes-per-day", 10**10)
    esg("tokens", "add", "alice", "--file", file)
    esg("tokens", "add", "bob", "--file", file, "--operator", "--in-flight", 7)
    esg("tokens", "add", "carol", "--file", file, *rich)
    ran = esg("tokens", "list", "--file", file)
    assert ran.code == 0
    assert ["alice", "any", "100", "any", "any"] in [line.split() for line in ran.out.splitlines()]
    assert ["bob", "any", "100", "7", "any", "yes"] in [
        line.split() for line in ran.out.splitlines()
    ]
    assert ["carol", "2.5", "100", "any", "10,000,000,000"] in [
        line.split() for line in ran.out.splitlines()
    ]
    assert esg("tokens", "remove", "carol", "--file", file).code == 0
    assert esg("tokens", "remove", "bob", "--file", file).code == 0
    ran = esg("tokens", "remove", "bob", "--file", file)
    assert (ran.code, ran.err) == (2, "error: unknown client 'bob'; known: alice\n")


def test_tokens_are_told_of_as_documents_too(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    added = json.loads(esg("tokens", "add", "bob", "--file", file, "--burst", 7, "--json").out)
    entry = whose(added.pop("token"), read_entries(file).values())
    assert entry is not None
    limits = {"requests_per_s": 0.0, "burst": 7, "in_flight": 0, "bytes_per_day": 0}
    assert added == {"client": entry.name, "operator": False, **limits}
    ran = esg("tokens", "list", "--file", file, "--json")
    assert json.loads(ran.out) == {"clients": [added]}
    assert entry.digest not in ran.out


@pytest.mark.parametrize("name", ["", "Alice", "a~b", "a/b", "-a", "x" * 33, "a b"])
def test_strange_names_are_refused(name: str, esg: Run, tmp_path: Path) -> None:
    ran = esg("tokens", "add", "--file", tmp_path / "tokens.toml", "--", name)
    assert (ran.code, ran.out) == (2, "")
    assert not (tmp_path / "tokens.toml").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[alice", "not TOML"),
        ("alice = 1", "alice: must be a table"),
        ("[alice]", "alice.sha256: is missing"),
        ('[alice]\nsha256 = "00"', "alice.sha256: must be 64 digits"),
        (f'[alice]\nsha256 = "{"0" * 64}"\nqouta = 1', "unknown key 'qouta'"),
        (f'[Alice]\nsha256 = "{"0" * 64}"', "client 'Alice'"),
    ],
)
def test_a_broken_file_is_told_of_in_one_line(
    text: str, words: str, esg: Run, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text, "utf-8")
    ran = esg("tokens", "list", "--file", file)
    assert (ran.code, words in ran.err, ran.err.count("\n")) == (2, True, 1)


def test_certificates_are_made_with_one_command(esg: Run, tmp_path: Path) -> None:
    ran = esg("certificates", tmp_path / "tls", "--host", "mesh.example.com")
    assert (ran.code, ran.err) == (0, "")
    assert "a new authority" in ran.out
    assert "the authority is kept" in esg("certificates", tmp_path / "tls").out
    told = json.loads(esg("certificates", tmp_path / "tls", "--json").out)
    assert (told["directory"], told["new_authority"]) == (str(tmp_path / "tls"), False)
    assert all((tmp_path / "tls" / f"{name}.pem").exists() for name in told["certificates"])
    ran = esg("certificates", tmp_path / "tls", "--days", 0)
    assert (ran.code, ran.err) == (2, "error: --days is 0; it must be at least 1\n")


@pytest.mark.parametrize("command", ["certificates", "secrets"])
def test_certificates_end_before_the_calendar_does(esg: Run, tmp_path: Path, command: str) -> None:
    ran = esg(command, tmp_path / "tls", "--days", 10_000_000)
    assert (ran.code, ran.err) == (2, "error: --days is 10000000; it must be at most 36525\n")
    assert esg(command, tmp_path / "tls", "--days", 36_525).code == 0
