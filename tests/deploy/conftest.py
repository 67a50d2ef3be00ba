"""Meshes in containers: what they are made of, and their end, however a test ends."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.deploy.debian import base_image, builder_image, redis_image
from tests.deploy.engine import ROOT, Project, run

SCALE = 0.01
"""Of the data between stages, relative to the paper's: two cores carry it beside the rest."""


class BringUp(Protocol):
    def __call__(self, name: str, files: list[str], **variables: str) -> Project: ...


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    run(ROOT / ".venv/bin/esg", "secrets", tmp_path / "secrets")
    return tmp_path / "secrets"


@pytest.fixture
def bring_up(secrets: Path) -> Iterator[BringUp]:
    """Start a project of containers; all that is left of it in the end is removed."""
    usual = {
        "MESH_IMAGE": "esg-test",
        "MESH_BASE": base_image(),
        "MESH_BUILDER": builder_image(),
        "MESH_REDIS_IMAGE": redis_image(),
        "MESH_SECRETS": str(secrets),
        "MESH_PAYLOAD_SCALE": str(SCALE),
        "COMPOSE_PROFILES": "control,node",
    }
    with ExitStack() as ends:

        def start(name: str, files: list[str], **variables: str) -> Project:
            project = Project(f"esg-test-{os.getpid()}-{name}", files, {**usual, **variables})
            project("build", "node")
            ends.callback(project.remove)
            project("up", "--detach", "--no-build")
            return project

        yield start
