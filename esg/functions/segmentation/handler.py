"""Segmentation: a picture in; out comes the same one with a mask of all that is not background.

The mask is the picture's alpha channel, and the colours below it are left as they were: a viewer
shows what was found, and nothing is lost. Where nothing is found, there is nothing to mask. A
network gives a score for each class and pixel; how many classes it has tells which they are.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from esg.errors import Fault
from esg.functions.findings import notes
from esg.functions.pictures import IMAGENET, Floats, decoded, encoded, picture_of, planes

SIDE = 512
CLASSES = {
    2: ("background", "person"),
    21: (
        "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat",
        "chair", "cow", "dining table", "dog", "horse", "motorbike", "person", "potted plant",
        "sheep", "sofa", "train", "television",
    ),
}  # fmt: skip
"""Those of Pascal VOC, and those of a network that knows people only."""
LEAST_SHARE = 0.01
"""What covers less of the picture is not mentioned."""


class Handler:
    def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, Floats]:
        picture = decoded(inputs[0]).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        return {"picture": planes(picture, IMAGENET)}

    def finish(self, outputs: Mapping[str, Floats], inputs: Sequence[bytes]) -> bytes:
        scores = outputs["scores"]
        if len(scores) not in CLASSES:
            raise Fault(f"a network of {len(scores)} classes; known are those of {list(CLASSES)}")
        picture, found = decoded(inputs[0]), _found(scores)
        picture.putalpha(255)
        if found:
            likely = np.exp(scores - scores.max(axis=0))
            mask = picture_of(1 - likely[0] / likely.sum(axis=0))
            picture.putalpha(mask.resize(picture.size, Image.Resampling.BICUBIC))
        return encoded(picture, notes("segmentation", outputs, inputs, found or "nothing"))


def _found(scores: Floats) -> str:
    """What is there, and how much of the picture it takes."""
    names, classes = CLASSES[len(scores)], scores.argmax(axis=0)
    shares = np.bincount(classes.ravel(), minlength=len(names)) / classes.size
    order = [number for number in np.argsort(-shares) if number and shares[number] >= LEAST_SHARE]
    return ", ".join(f"{names[number]} {shares[number]:.0%}" for number in order)
