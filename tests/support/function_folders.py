"""The function folders, as a node would load them."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tests.support.paths import ROOT as REPOSITORY

ROOT = REPOSITORY / "esg" / "functions"
NAMES = sorted(path.parent.name for path in ROOT.glob("*/function.toml"))
PHOTO = ROOT / "photo.jpg"
SIZE = (256, 300)
"""Of the photo."""


class Handler(Protocol):
    def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, np.ndarray]: ...

    def finish(self, outputs: Mapping[str, np.ndarray], inputs: Sequence[bytes]) -> bytes: ...


def handler(name: str, root: Path = ROOT) -> Handler:
    path = root / name / "handler.py"
    spec = importlib.util.spec_from_file_location(f"handler_of_{name.replace('-', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Handler = module.Handler()
    return made


def saying(text: str, **outputs: Any) -> dict[str, np.ndarray]:
    """A model's outputs, with what it says of its weights."""
    return {**outputs, "weights": np.array(list(text.encode()), np.int32)}
