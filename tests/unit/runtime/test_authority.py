"""The development authority: what it makes, and what it leaves alone."""

import ssl
from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.runtime.security.authority import CALLERS, SERVICES, make_certificates, names_in


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    assert make_certificates(tmp_path / "tls", hosts=(), days=1)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "tls").iterdir()}
    names = {*SERVICES, *CALLERS, "ca"}
    assert modes.keys() == {f"{name}.{kind}" for name in names for kind in ("pem", "key")}
    assert {mode for name, mode in modes.items() if name.endswith(".key")} == {0o600}


def test_the_authority_stays_and_the_certificates_are_new(tmp_path: Path) -> None:
    make_certificates(tmp_path, hosts=["mesh.example.com", "10.0.0.7"], days=1)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert not make_certificates(tmp_path, hosts=(), days=1)
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    same = {name for name in before if before[name] == after[name]}
    assert same == {"ca.pem", "ca.key"}


def test_hosts_are_kept_until_others_are_named(tmp_path: Path) -> None:
    make_certificates(tmp_path, hosts=["mesh.example.com", "10.0.0.7"], days=1)
    make_certificates(tmp_path, hosts=(), days=1)
    named = {"mesh.example.com", "10.0.0.7"}
    assert named < set(names_in(tmp_path / "gateway.pem"))
    make_certificates(tmp_path, hosts=["10.0.0.8"], days=1)
    assert not named & set(names_in(tmp_path / "gateway.pem"))


def test_only_the_gateway_is_known_by_its_host(tmp_path: Path) -> None:
    # attack: G2
    make_certificates(tmp_path, hosts=["mesh.example.com"], days=1)
    names = {name: names_in(tmp_path / f"{name}.pem") for name in (*SERVICES, *CALLERS)}
    assert {"gateway.esg", "127.0.0.1", "mesh.example.com"} < set(names.pop("gateway"))
    assert names == {
        "controller": ["controller.esg", "controller"],
        "invoker": ["invoker.esg", "invoker"],
        "redis": ["redis.esg", "redis"],
        "client": ["client"],
        "observer": ["observer"],
    }


def test_certificates_are_taken_by_another_library(tmp_path: Path) -> None:
    make_certificates(tmp_path, hosts=(), days=1)
    for service in (*SERVICES, *CALLERS):
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        context.load_cert_chain(tmp_path / f"{service}.pem", tmp_path / f"{service}.key")


@pytest.mark.parametrize("host", ["", "ümlaut.example", "x" * 300])
def test_certificate_for_what_is_no_host_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="--host is"):
        make_certificates(tmp_path, hosts=[host], days=1)


def test_somebody_elses_authority_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("theirs", "ascii")
    (tmp_path / "ca.key").write_text("theirs", "ascii")
    with pytest.raises(Rejected, match="are no authority"):
        make_certificates(tmp_path, hosts=(), days=1)
    assert (tmp_path / "ca.key").read_text("ascii") == "theirs"
