"""`esg secrets`, as a person types it before `docker compose up`."""

import json
from pathlib import Path

import pytest

from esg.runtime.security.authority import names_in
from esg.runtime.security.tokens import read_entries, whose
from tests.component.cli.conftest import Run
from tests.deploy.rules import MESH, merged


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


def test_esg_secrets_makes_all_that_the_compose_file_asks_for(esg: Run, tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    ran = esg("secrets", folder, "--host", "mesh.example.com")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"{folder}: new CA, new certificates\n"
        f"to call a mesh in containers on this host: source {folder}/client.env\n"
        f"to call it at mesh.example.com, here or in a cluster: source {folder}/remote.env\n"
        f"others need ca.pem, and a token: esg tokens add NAME --file {folder}/tokens.toml\n"
    )
    wanted = {secret["file"] for secret in merged(MESH)["secrets"].values()}
    assert wanted <= {f"${{MESH_SECRETS:-./secrets}}/{name}" for name in modes(folder)}
    assert {"gateway", "localhost", "mesh.example.com"} <= set(names_in(folder / "gateway.pem"))
    entry = whose(
        (folder / "client.token").read_text("utf-8").strip(),
        read_entries(folder / "tokens.toml").values(),
    )
    assert entry is not None
    assert (entry.name, entry.operator) == ("me", True)


def test_containers_can_read_what_they_are_given_and_others_cannot_enter(
    esg: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "secrets"
    esg("secrets", folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    found = modes(folder)
    assert found.pop("ca.key") == 0o600
    assert set(found.values()) == {0o644}
    esg("tokens", "add", "alice", "--file", folder / "tokens.toml")
    assert modes(folder)["tokens.toml"] == 0o644


def test_made_again_tokens_and_authority_stay(esg: Run, tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    esg("secrets", folder)
    esg("tokens", "add", "alice", "--file", folder / "tokens.toml")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    ran = esg("secrets", folder)
    assert ran.out.startswith(f"{folder}: the CA is kept, new certificates\n")
    changed = {file.name for file in folder.iterdir() if file.read_bytes() != before[file.name]}
    services = ("client", "controller", "gateway", "invoker", "observer", "redis")
    assert changed == {f"{name}.{end}" for name in services for end in ("key", "pem")}


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        (["mesh.example.com", "10.0.0.7"], "mesh.example.com:50051"),
        (["*.example.com", "10.0.0.7"], "10.0.0.7:50051"),
        (["fd00::7"], "'[fd00::7]:50051'"),
    ],
)
def test_variables_for_others_name_the_host_that_others_know(
    esg: Run, tmp_path: Path, hosts: list[str], address: str
) -> None:
    folder = tmp_path / "secrets"
    named = [word for host in hosts for word in ("--host", host)]
    ran = esg("secrets", folder, *named, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "directory": str(folder),
        "new_authority": True,
        "client_env": f"{folder}/client.env",
        "remote_env": f"{folder}/remote.env",
    }
    here, others = ((folder / f"{name}.env").read_text("utf-8") for name in ("client", "remote"))
    assert here.startswith("export ESG_GATEWAY=127.0.0.1:50051\n")
    assert others.startswith(f"export ESG_GATEWAY={address}\n")
    assert others.partition("\n")[2] == here.partition("\n")[2]


def test_without_a_name_in_the_certificate_there_are_no_variables_for_others(
    esg: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "secrets"
    esg("secrets", folder, "--host", "mesh.example.com")
    ran = esg("secrets", folder)
    assert "remote.env" not in ran.out
    assert not (folder / "remote.env").exists()
