"""Docker and its Compose tool, as a person would call them."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

LIMIT_S = 600.0
"""For one command: far more than any takes on a machine that does something else too."""


def run(
    *command: object,
    env: Mapping[str, str] | None = None,
    stdin: Any = subprocess.DEVNULL,
    at: Path = ROOT,
) -> str:
    """What a command prints; if it fails, the test fails with all that it said."""
    words = [str(word) for word in command]
    ran = subprocess.run(
        words,
        cwd=at,
        env={**os.environ, **(env or {})},
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = f"{ran.stdout[-4000:]}\n{ran.stderr[-4000:]}"
    assert ran.returncode == 0, f"{' '.join(words)} ended with {ran.returncode}:\n{said}"
    return ran.stdout.strip()


@cache
def why_no_engine() -> str:
    """Empty if an engine answers."""
    if shutil.which("docker") is None:
        return "there is no docker on this machine"
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    answer = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode:
        return f"no Docker engine answers: {answer.stderr.strip()}"
    return "" if compose_tool() else "there is no Compose tool on this machine"


@cache
def compose_tool() -> tuple[str, ...]:
    """`docker compose`, or the `docker-compose` of earlier days."""
    if shutil.which("docker") is not None:
        asked = ["docker", "compose", "version"]
        if subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode == 0:
            return ("docker", "compose")
    return ("docker-compose",) if shutil.which("docker-compose") else ()


def has_image(tag: str) -> bool:
    return bool(run("docker", "images", "--quiet", tag))


def free_ports(count: int, host: str = "127.0.0.1") -> list[str]:
    """As many different ones: each is taken while the next is looked for."""
    with ExitStack() as taken:
        found = [taken.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind((host, 0))
        return [str(one.getsockname()[1]) for one in found]


def address_for_containers() -> str:
    """One that this machine has, and that containers of every network can call."""
    described = json.loads(run("docker", "network", "inspect", "bridge"))[0]
    subnet = ip_network(described["IPAM"]["Config"][0]["Subnet"])
    return described["IPAM"]["Config"][0].get("Gateway") or str(subnet[1])


class Project:
    """A Compose project: a checkout, what its variables are, and files if the tool is not to find
    them by itself."""

    def __init__(
        self, name: str, files: list[str], variables: Mapping[str, str], at: Path = ROOT
    ) -> None:
        self.name = name
        self._files = [word for file in files for word in ("-f", file)]
        self._variables = variables
        self._at = at

    def __call__(self, *arguments: object, stdin: Any = subprocess.DEVNULL) -> str:
        command = (*compose_tool(), "--project-name", self.name, *self._files, *arguments)
        return run(*command, env=self._variables, stdin=stdin, at=self._at)

    def bytes_of(self, *arguments: str) -> bytes:
        """What a command writes that is no text."""
        process = self.process(*arguments, text=False)
        out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, err
        return bytes(out)

    def process(self, *arguments: str, text: bool = True) -> "subprocess.Popen[Any]":
        """A command that goes on."""
        command = (*compose_tool(), "--project-name", self.name, *self._files, *arguments)
        return subprocess.Popen(
            command,
            cwd=self._at,
            env={**os.environ, **self._variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=text,
        )

    def remove(self) -> None:
        """All of it, commands that go on included."""
        if commands := self.left("ps", "--filter", "label=com.docker.compose.oneoff=True"):
            run("docker", "rm", "--force", *commands)
        self("down", "--volumes", "--timeout", "60")

    def containers(self) -> dict[str, dict[str, Any]]:
        """All there are, by the names of their services, as the engine describes them; more of one
        service by their numbers, too."""
        found = self.left("ps", "--all")
        if not found:
            return {}
        described = json.loads(run("docker", "inspect", *found))
        return {_name(one["Config"]["Labels"]): one for one in described}

    def left(self, *kind: str) -> list[str]:
        """The ids of containers, volumes or networks of this project."""
        label = f"label=com.docker.compose.project={self.name}"
        return run("docker", *kind, "--quiet", "--filter", label).split()


def _name(labels: Mapping[str, str]) -> str:
    service = labels["com.docker.compose.service"]
    number = labels.get("com.docker.compose.container-number", "1")
    return service if number == "1" else f"{service}-{number}"


def fresh_clone(folder: Path) -> Path:
    """What somebody has who has just cloned this repository, with what is changed in it here."""
    listed = run("git", "ls-files", "-z").split("\0")
    for name in filter(None, listed):
        source, target = ROOT / name, folder / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return folder
