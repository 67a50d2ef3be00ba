"""Compose files, read and merged as the Compose tool does, and what must hold for all of them.

Where the tool itself is at hand, `test_compose.py` has it read them, too.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.engine import ROOT

MESH = ROOT / "docker-compose.yml"
PUBLISHED = {"gateway"}
FILLS_ROOMS = "secrets"
"""The service that makes the secrets of all others."""


def specification_errors(*files: Path) -> str:
    """What the Compose specification's schema has against some files."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    ran = subprocess.run(
        [*command, *map(str, files)], capture_output=True, text=True, timeout=120, check=False
    )
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def merged(*files: Path) -> dict[str, Any]:
    """Later files win; mappings are joined, lists are added to, and a list of dependencies is a
    mapping in short."""
    whole: dict[str, Any] = {}
    for file in files:
        whole = _joined(whole, yaml.safe_load(file.read_text("utf-8")))
    return whole


def _joined(one: Any, other: Any, key: str = "") -> Any:
    if key == "depends_on":
        one, other = _conditions(one), _conditions(other)
    if isinstance(one, dict) and isinstance(other, dict):
        both = {**one, **other}
        return {
            name: _joined(one[name], other[name], name) if name in one and name in other else value
            for name, value in both.items()
        }
    if isinstance(one, list) and isinstance(other, list) and key not in ("command", "entrypoint"):
        return [*one, *other]
    return other


def _conditions(depends_on: Any) -> dict[str, Any]:
    if isinstance(depends_on, dict):
        return depends_on
    return {name: {"condition": "service_started"} for name in depends_on}


def broken_rules(mesh: dict[str, Any]) -> list[str]:
    """Rights that some service has and should not have, or limits that it lacks."""
    found = []
    for name, service in mesh["services"].items():
        rules = {
            "runs as root": service.get("user", "0").split(":")[0] not in ("0", "root"),
            "writes to its root": service.get("read_only") is True,
            "keeps capabilities": service.get("cap_drop") == ["ALL"],
            "adds capabilities": not service.get("cap_add"),
            "is privileged": not service.get("privileged"),
            "may gain privileges": service.get("security_opt") == ["no-new-privileges:true"],
            "is published": not service.get("ports") or name in PUBLISHED,
            "has no limit of memory": "mem_limit" in service,
            "has no limit of processes": "pids_limit" in service,
            "has no restart policy": "restart" in service,
            "is in no profile": bool(service.get("profiles")),
            "has the host's network": service.get("network_mode") != "host",
            "sees secrets of others": name == FILLS_ROOMS or _has_one_room(service),
            "is in a group of others": name == FILLS_ROOMS or not service.get("group_add"),
        }
        found += [f"{name} {what}" for what, holds in rules.items() if not holds]
    return found


def rooms(service: dict[str, Any]) -> list[str]:
    """The volumes with secrets that a service is given, as they are written."""
    written = [one for one in service.get("volumes", []) if isinstance(one, str)]
    return [one for one in written if one.startswith("secrets-")]


def _has_one_room(service: dict[str, Any]) -> bool:
    """At most, to read, and not the authority's."""
    found = rooms(service)
    return len(found) <= 1 and all(
        one.endswith(":/run/secrets:ro") and "authority" not in one for one in found
    )
