"""Exports MiDaS v2.1 small (Ranftl et al., TPAMI '22) for MIG slices."""

from pathlib import Path
from typing import Any

from esg.functions.exporting import ExportArguments, ExportedNetwork, export

NETWORK = ExportedNetwork(
    folder=Path(__file__).parent,
    name="MiDaS v2.1 small",
    output="nearness",
    sides=(256, 256),
    source="""\
Code and weights are the authors' (https://github.com/isl-org/MiDaS); torch's hub downloads them,
and timm, which they need, must be installed:
  python export.py""",
)


def make(asked: ExportArguments) -> Any:
    return asked.torch.hub.load("isl-org/MiDaS", "MiDaS_small")


if __name__ == "__main__":
    export(NETWORK, make)
