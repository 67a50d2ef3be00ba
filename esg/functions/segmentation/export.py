"""Exports DeepLabV3 with a ResNet50 (Chen et al., 2017) for MIG slices."""

from pathlib import Path
from typing import Any

from esg.functions.exporting import ExportArguments, ExportedNetwork, export

NETWORK = ExportedNetwork(
    folder=Path(__file__).parent,
    name="DeepLabV3-ResNet50",
    output="scores",
    sides=(512, 512),
    source="""\
Code and weights are torchvision's (COCO_WITH_VOC_LABELS_V1); it downloads them:
  python export.py""",
)


def make(asked: ExportArguments) -> Any:
    """Its scores at an eighth of the size: enlarging them is the handler's, and saves sending."""
    from torchvision.models.segmentation import DeepLabV3_ResNet50_Weights, deeplabv3_resnet50

    whole = deeplabv3_resnet50(weights=DeepLabV3_ResNet50_Weights.COCO_WITH_VOC_LABELS_V1)

    class Scores(asked.torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.classifier = whole.backbone, whole.classifier

        def forward(self, picture: Any) -> Any:
            return self.classifier(self.backbone(picture)["out"])

    return Scores()


if __name__ == "__main__":
    export(NETWORK, make)
