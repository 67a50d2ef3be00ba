"""Inputs and outputs, as commands show them."""

from collections.abc import Sequence
from typing import Any

from esg.core.catalog.ports import Port, described


def ports_text(inputs: Sequence[Port], outputs: Sequence[Port]) -> str:
    """
    >>> ports_text([Port("picture", "image/*")], [Port("labels", "application/json")])
    'picture (image/*) => labels (application/json)'
    """
    return f"{described(inputs)} => {described(outputs)}"


def port_document(port: Port, name: str = "") -> dict[str, Any]:
    """
    >>> port_document(Port("boxes", datatype="FP32", shape=(-1, 4)))
    {'name': 'boxes', 'datatype': 'FP32', 'shape': [-1, 4]}
    """
    if port.datatype:
        return {"name": name or port.name, "datatype": port.datatype, "shape": list(port.shape)}
    return {"name": name or port.name, "media_type": port.media_type}
