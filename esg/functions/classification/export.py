"""Exports ResNet50 (He et al., CVPR '16) for MIG slices."""

from pathlib import Path
from typing import Any

from esg.functions.exporting import ExportArguments, ExportedNetwork, export

NETWORK = ExportedNetwork(
    folder=Path(__file__).parent,
    name="ResNet50",
    output="scores",
    sides=(224, 224),
    source="""\
Code and weights are torchvision's (IMAGENET1K_V2); it downloads them:
  python export.py""",
)


def make(_: ExportArguments) -> Any:
    from torchvision.models import ResNet50_Weights, resnet50

    return resnet50(weights=ResNet50_Weights.IMAGENET1K_V2)


if __name__ == "__main__":
    export(NETWORK, make)
