"""Depth: a picture in; out comes how near everything in it is: in grey, the near is bright."""

from collections.abc import Mapping, Sequence

from PIL import Image

from esg.functions.findings import notes
from esg.functions.pictures import IMAGENET, Floats, decoded, encoded, picture_of, planes

SIDE = 256


class Handler:
    def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, Floats]:
        picture = decoded(inputs[0]).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        return {"picture": planes(picture, IMAGENET)}

    def finish(self, outputs: Mapping[str, Floats], inputs: Sequence[bytes]) -> bytes:
        """The network's numbers have no unit: only which are greater means something."""
        nearness = outputs["nearness"]
        span = float(nearness.max() - nearness.min()) or 1.0
        shades = picture_of((nearness - nearness.min()) / span)
        size = decoded(inputs[0]).size
        return encoded(
            shades.resize(size, Image.Resampling.BICUBIC), notes("depth", outputs, inputs)
        )
