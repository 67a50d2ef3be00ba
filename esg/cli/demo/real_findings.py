"""What `esg demo --real` demonstrates, and what comes of it.

The photo, its origin included, is that of the package `functions`.
"""

import json
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from esg.client import Outcome, Result
from esg.functions.pictures import FORMATS

PHOTO = Path(__file__).parents[2] / "functions" / "photo.jpg"
APPLICATION = "image-classification"
ENLARGED, MASKED, LABELLED = "super-resolution", "segmentation", "classification"
SLICES = 2
SLO_MS = 120_000
"""The application's own SLO is meant for GPUs."""


@dataclass(slots=True)
class RealDemoFindings:
    """What came of a demonstration with real models."""

    up_s: float = 0.0
    results: list[Result] = field(default_factory=list)
    """The first finds no model loaded, the second all of them."""
    files: dict[str, Path] = field(default_factory=dict)
    whole_s: float = 0.0

    @property
    def all_right(self) -> bool:
        return bool(self.results) and all(r.outcome is Outcome.DONE for r in self.results)

    @property
    def outputs(self) -> dict[str, bytes]:
        return self.results[-1].outputs

    @property
    def label(self) -> dict[str, Any]:
        """The label that the last stage gave the photo."""
        said: dict[str, Any] = json.loads(self.outputs[LABELLED])
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class RealDemonstration:
    """A photo, and the folder for what is made of it."""

    photo: Path
    out: Path


def opened(content: bytes) -> Image.Image:
    """A picture that was made in the demonstration, or the photo that it began with."""
    return Image.open(BytesIO(content), formats=FORMATS)
