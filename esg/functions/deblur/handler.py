"""Deblurring: a picture in, the same one sharper out."""

from collections.abc import Mapping, Sequence

import numpy as np

from esg.functions.findings import notes
from esg.functions.pictures import MINUS_ONE_TO_ONE, Floats, decoded, encoded, picture_of, planes

MULTIPLE = 4
"""The network halves its input twice and doubles it again, so its sides must allow for that."""


class Handler:
    def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, Floats]:
        array = planes(decoded(inputs[0]), MINUS_ONE_TO_ONE)
        more = [(0, -side % MULTIPLE) for side in array.shape[1:]]
        return {"picture": np.pad(array, [(0, 0), *more], mode="edge")}

    def finish(self, outputs: Mapping[str, Floats], inputs: Sequence[bytes]) -> bytes:
        picture = picture_of(outputs["sharpened"], MINUS_ONE_TO_ONE)
        width, height = decoded(inputs[0]).size
        return encoded(picture.crop((0, 0, width, height)), notes("deblur", outputs, inputs))
