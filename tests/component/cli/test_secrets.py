"""`esg secrets`, as a person types it before `docker compose up`."""

from pathlib import Path

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
        f"{folder}: a new authority, new certificates\n"
        f"to call the mesh from this host: source {folder}/client.env\n"
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
    assert ran.out.startswith(f"{folder}: the authority is kept, new certificates\n")
    changed = {file.name for file in folder.iterdir() if file.read_bytes() != before[file.name]}
    services = ("client", "controller", "gateway", "invoker", "observer", "redis")
    assert changed == {f"{name}.{end}" for name in services for end in ("key", "pem")}
