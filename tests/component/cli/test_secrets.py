"""`esg secrets`, as a person types it before `kubectl apply`."""

import json
import re
from pathlib import Path

import pytest

from esg.runtime.security.authority import names_in
from esg.runtime.security.tokens import read_entries, whose
from tests.component.cli.conftest import Run
from tests.support.paths import ROOT


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


def test_esg_secrets_makes_all_that_the_kubernetes_files_ask_for(esg: Run, tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    ran = esg("secrets", folder, "--host", "mesh.example.com")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"{folder}: new CA, new certificates\n"
        f"to call a mesh on this host: source {folder}/client.env\n"
        f"to call it at mesh.example.com: source {folder}/remote.env\n"
        f"others need ca.pem, and a token: esg tokens add NAME --file {folder}/tokens.toml\n"
    )
    kustomization = (ROOT / "deploy/kubernetes/base/kustomization.yaml").read_text("utf-8")
    wanted = set(re.findall(r"secrets/([\w.]+)[,\]]", kustomization))
    assert {"ca.pem", "redis.key", "tokens.toml"} <= wanted <= set(modes(folder))
    assert {"gateway", "localhost", "mesh.example.com"} <= set(names_in(folder / "gateway.pem"))
    entry = whose(
        (folder / "client.token").read_text("utf-8").strip(),
        read_entries(folder / "tokens.toml").values(),
    )
    assert entry is not None
    assert (entry.name, entry.operator) == ("me", True)


def test_keys_and_tokens_are_for_their_owner_alone(esg: Run, tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o755)
    esg("secrets", folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    esg("tokens", "add", "alice", "--file", folder / "tokens.toml")
    for name, mode in modes(folder).items():
        assert mode == (0o644 if name.endswith(".pem") else 0o600), name


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
