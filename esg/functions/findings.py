"""What a stage says about its output: what it found, and with which weights.

Every model has an output `weights`, a text as the numbers of its bytes: "trained: …" or "untrained:
…". A network with random weights takes as long as a trained one, and its output may look alike; so
it is said with every output which it was, for this stage and those before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from esg.functions.pictures import notes_of

WEIGHTS = "weights"


def notes(
    function: str,
    outputs: Mapping[str, NDArray[Any]],
    inputs: Sequence[bytes],
    found: str = "",
) -> dict[str, str]:
    """For the output of a function: the notes of its inputs, and its own."""
    told = {name: text for content in inputs for name, text in notes_of(content).items()}
    told[f"{function} {WEIGHTS}"] = bytes(outputs[WEIGHTS].tolist()).decode()
    if found:
        told[f"{function} found"] = found
    return told
