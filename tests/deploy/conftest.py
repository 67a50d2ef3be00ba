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
    def __call__(
        self, name: str, files: list[str], at: Path = ROOT, **variables: str
    ) -> Project: ...


@pytest.fixture
def bring_up() -> Iterator[BringUp]:
    """A project of containers that are still to be started; all that is left of it in the end is
    removed, with the image that it built."""
    image = f"esg-test-{os.getpid()}"
    usual = {
        "MESH_IMAGE": image,
        "MESH_BASE": base_image(),
        "MESH_BUILDER": builder_image(),
        "MESH_REDIS_IMAGE": redis_image(),
        "MESH_PAYLOAD_SCALE": str(SCALE),
    }
    with ExitStack() as ends:
        ends.callback(lambda: run("docker", "rmi", "--force", "--no-prune", image))

        def project(name: str, files: list[str], at: Path = ROOT, **variables: str) -> Project:
            made = Project(f"{image}-{name}", files, {**usual, **variables}, at)
            ends.callback(made.remove)
            return made

        yield project
