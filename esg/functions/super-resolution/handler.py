"""Super-resolution: a picture in, the same one enlarged out."""

from collections.abc import Mapping, Sequence

from esg.functions.findings import notes
from esg.functions.pictures import Floats, decoded, encoded, picture_of, planes


class Handler:
    def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, Floats]:
        return {"picture": planes(decoded(inputs[0]))}

    def finish(self, outputs: Mapping[str, Floats], inputs: Sequence[bytes]) -> bytes:
        told = notes("super-resolution", outputs, inputs)
        return encoded(picture_of(outputs["enlarged"]), told)
