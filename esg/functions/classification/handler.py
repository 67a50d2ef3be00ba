"""Classification: a picture in; out comes what it shows, as JSON, with how sure that is."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from esg.functions.findings import WEIGHTS, notes
from esg.functions.pictures import IMAGENET, Floats, decoded, planes

SIDE = 224
TOLD = 5
LABELS = Path(__file__).with_name("labels.txt")


class Handler:
    def __init__(self) -> None:
        lines = LABELS.read_text("utf-8").splitlines()
        self._labels = [line for line in lines if not line.startswith("#")]

    def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, Floats]:
        """The whole picture, on a white square: what matters may be at its edge."""
        square = ImageOps.pad(
            decoded(inputs[0]), (SIDE, SIDE), Image.Resampling.BICUBIC, color="white"
        )
        return {"picture": planes(square, IMAGENET)}

    def finish(self, outputs: Mapping[str, Floats], inputs: Sequence[bytes]) -> bytes:
        scores = outputs["scores"]
        likely = np.exp(scores - scores.max())
        likely /= likely.sum()
        best = np.argsort(-likely)[:TOLD]
        told = [{"label": self._labels[i], "score": round(float(likely[i]), 4)} for i in best]
        answer = {
            **told[0],
            "others": told[1:],
            **_by_kind(notes("classification", outputs, inputs)),
        }
        return f"{json.dumps(answer, indent=2, ensure_ascii=False)}\n".encode()


def _by_kind(told: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The notes of all stages: {"weights": {stage: text}, "found": {stage: text}}."""
    kinds: dict[str, dict[str, str]] = {WEIGHTS: {}}
    for name, text in told.items():
        stage, _, kind = name.rpartition(" ")
        kinds.setdefault(kind, {})[stage] = text
    return kinds
