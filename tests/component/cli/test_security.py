"""`esg certificates` and `esg tokens`, as a person types them."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from esg.runtime.security.tokens import (
    Quota,
    TokenEntry,
    digest_of,
    parse_time_s,
    read_entries,
    time_text,
    whose,
    write_entries,
)
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


def test_a_new_token_leaves_limits_and_rights_as_they_were_unless_they_are_given(
    esg: Run, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.toml"
    limits = ("--requests-per-s", 5, "--burst", 7, "--in-flight", 3, "--bytes-per-day", 10**9)
    esg("tokens", "add", "bob", "--file", file, "--operator", "--expires", "90d", *limits)
    before = read_entries(file)["bob"]
    for command in (("add", "bob", "--replace"), ("rotate", "bob")):
        assert esg("tokens", *command, "--file", file).code == 0
        after = read_entries(file)["bob"]
        assert after.digest != before.digest
        assert (after.quota, after.operator, after.expires_s) == (
            before.quota,
            before.operator,
            before.expires_s,
        )
    changes = ("--no-operator", "--in-flight", 4, "--expires", "never")
    esg("tokens", "add", "bob", "--file", file, "--replace", *changes)
    after = read_entries(file)["bob"]
    assert (after.quota, after.operator) == (replace(before.quota, in_flight=4), False)
    assert (after.expires_s, after.former) == (None, None)


def test_a_token_that_is_rotated_is_good_for_a_while_yet(esg: Run, tmp_path: Path) -> None:
    # attack: G4
    file = tmp_path / "tokens.toml"
    old = esg("tokens", "add", "alice", "--file", file).out.strip()
    began_s = int(time.time())
    ran = esg("tokens", "rotate", "alice", "--file", file, "--keep-old", "2d", "--expires", "90d")
    entry = read_entries(file)["alice"]
    assert whose(old, [entry]) == whose(ran.out.strip(), [entry]) == entry
    assert entry.current == entry.shown(digest_of(ran.out.strip()))
    former = entry.shown(digest_of(old))
    assert former is not None
    ended_s = int(time.time())
    for found, days in ((former, 2), (entry.current, 90)):
        assert found.expires_s is not None
        assert began_s <= found.expires_s - days * 86_400 <= ended_s
    listed = json.loads(esg("tokens", "list", "--file", file, "--json").out)["clients"][0]
    assert listed["former_until"] == time_text(former.expires_s or 0)
    shown = esg("tokens", "list", "--file", file).out
    for found in (former, entry.current):
        assert time_text(found.expires_s or 0)[:10] in shown
    first = esg("tokens", "rotate", "alice", "--file", file).out.strip()
    assert whose(old, read_entries(file).values()) is None  # there are two at most
    assert whose(first, read_entries(file).values()) is not None


def test_a_former_token_lasts_no_longer_than_it_was_to(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    esg("tokens", "add", "alice", "--file", file, "--expires", "30m")
    before = read_entries(file)["alice"]
    esg("tokens", "rotate", "alice", "--file", file, "--keep-old", "2d", "--expires", "2999-01-01")
    after = read_entries(file)["alice"]
    assert after.former == before.current
    assert after.expires_s == parse_time_s("2999-01-01T00:00:00Z")


def test_a_token_that_has_expired_is_not_followed_by_one_for_ever(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    write_entries(file, {"alice": TokenEntry(name="alice", digest="0" * 64, expires_s=1)})
    assert "expired" in esg("tokens", "list", "--file", file).out
    for command in (("add", "alice", "--replace"), ("rotate", "alice")):
        ran = esg("tokens", *command, "--file", file)
        assert (ran.code, "say how long the new one is good" in ran.err) == (2, True)
    assert esg("tokens", "rotate", "alice", "--file", file, "--expires", "never").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--expires", "soon"), "--expires is 'soon'; it must be a time from now"),
        (("--expires", "2020-01-01"), "which is over"),
        (("--expires", "999999999d"), "--expires is '999999999d'; it must be a number of days"),
        (("--keep-old", "an hour"), "--keep-old is 'an hour'; it must be a number of days"),
    ],
)
def test_times_that_make_no_sense_are_refused(
    arguments: tuple[str, str], words: str, esg: Run, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.toml"
    esg("tokens", "add", "alice", "--file", file)
    before = file.read_text("utf-8")
    ran = esg("tokens", "rotate", "alice", "--file", file, *arguments)
    assert (ran.code, words in ran.err) == (2, True)
    assert file.read_text("utf-8") == before


def test_clients_are_listed_and_removed(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    rich = ("--requests-per-s", 2.5, "--bytes-per-day", 10**10)
    esg("tokens", "add", "alice", "--file", file)
    esg("tokens", "add", "bob", "--file", file, "--operator", "--in-flight", 7)
    esg("tokens", "add", "carol", "--file", file, *rich)
    ran = esg("tokens", "list", "--file", file)
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["alice", "any", "100", "any", "any", "never"] in lines
    assert ["bob", "any", "100", "7", "any", "never", "yes"] in lines
    assert ["carol", "2.5", "100", "any", "10,000,000,000", "never"] in lines
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
    times = {"expires": None, "former_until": None}
    assert added == {"client": entry.name, "operator": False, **times, **limits}
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
        (f'[alice]\nsha256 = "{"0" * 64}"\nexpires = "soon"', "alice.expires: must be a time"),
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
