"""Background removal: a picture in; out comes what stands in front, cut out, on nothing.

If nothing stands in front, the picture stays whole: there is no background to remove.
"""

from collections.abc import Mapping, Sequence

from PIL import Image

from esg.functions.findings import notes
from esg.functions.pictures import IMAGENET, Floats, decoded, encoded, picture_of, planes

SIDE = 320
LEAST_SHARE = 0.01
"""Less of the picture than this is nothing."""
_ANYTHING = [0] + [255] * 255
"""Every shade but black is white: pixels at the edge keep their colours, and are part clear."""


class Handler:
    def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, Floats]:
        picture = decoded(inputs[0]).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        return {"picture": planes(picture, IMAGENET)}

    def finish(self, outputs: Mapping[str, Floats], inputs: Sequence[bytes]) -> bytes:
        picture, share = decoded(inputs[0]), float(outputs["mask"].mean())
        found = f"{share:.0%} of the picture" if share >= LEAST_SHARE else "nothing"
        told = notes("background-removal", outputs, inputs, found)
        if share < LEAST_SHARE:
            return encoded(picture, told)
        mask = picture_of(outputs["mask"][0]).resize(picture.size, Image.Resampling.BICUBIC)
        cut_out = Image.new("RGBA", picture.size, (255, 255, 255, 0))
        cut_out.paste(picture, mask=mask.point(_ANYTHING))
        cut_out.putalpha(mask)
        return encoded(cut_out, told)
