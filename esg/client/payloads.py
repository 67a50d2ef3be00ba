"""What a program gives and gets: bytes, numpy arrays, JSON; as payloads and outputs of the mesh.

numpy is imported when an array has to be made, and not before: who sends bytes needs none.
"""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from esg.client.errors import Misconfigured
from esg.errors import Rejected
from esg.parts import NAMELESS, Part, is_packed, packed, unpacked
from esg.runtime.rpc.status import InvalidRequest, ServerError
from esg.tensors import BYTES, behind_lengths, elements_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]
else:
    Array = Any

Payload = bytes | Array | Mapping[str, Any]
Content = bytes | Array

_DATATYPES = {
    "bool": "BOOL",
    **{
        f"{sign}int{bits}": f"{sign.upper()}INT{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
}
"""By numpy's name."""
_NAMES = {datatype: name for name, datatype in _DATATYPES.items()}


class Sent(NamedTuple):
    """A payload, and whether it is packed parts."""

    content: bytes
    in_parts: bool


def sent(payload: "Payload") -> Sent:
    """A payload as it travels: bytes as they are; an array, or inputs by name, packed.

    >>> sent(b"a picture"), sent({"question": {"limit": 3}}).in_parts
    (Sent(content=b'a picture', in_parts=False), True)
    """
    if isinstance(payload, bytes | bytearray | memoryview):
        return Sent(bytes(payload), in_parts=False)
    if isinstance(payload, Mapping):
        if not payload:
            raise InvalidRequest("payload: has no inputs; give each by its name")
        return Sent(packed(_part(str(name), value) for name, value in payload.items()), True)
    if _is_array(payload):
        return Sent(packed([_tensor(NAMELESS, payload)]), in_parts=True)
    raise InvalidRequest(
        f"payload: is {type(payload).__name__}; give bytes, a numpy array, or a mapping from the "
        "names of inputs to bytes, arrays and JSON"
    )


def _part(name: str, value: Any) -> Part:
    if isinstance(value, bytes | bytearray | memoryview):
        return Part(name, bytes(value))
    if _is_array(value):
        return _tensor(name, value)
    try:
        return Part(name, json.dumps(value).encode())
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"input {name}: is neither bytes nor an array nor JSON: {error}"
        ) from None


def _is_array(value: Any) -> bool:
    """Who has an array has imported numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _tensor(name: str, array: Any) -> Part:
    if array.dtype.kind in "OSU":
        elements = [e.encode() if isinstance(e, str) else bytes(e) for e in array.flat]
        return Part(name, b"".join(behind_lengths(elements)), BYTES, array.shape)
    datatype = _DATATYPES.get(array.dtype.name)
    if datatype is None:
        raise InvalidRequest(
            f"an array of {array.dtype} cannot be sent; known: {', '.join(_DATATYPES)}"
        )
    little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return Part(name, little_endian.tobytes(), datatype, array.shape)


# ---- and back


def named_contents(outputs: Mapping[str, bytes]) -> "dict[str, Content]":
    """The outputs of a request by name: a stage's by the stage, or, where it gives several, or
    tensors, as `stage.output`, and by the output's name alone if no other is called so."""
    full: dict[str, Content] = {}
    short: dict[str, list[Content]] = {}
    for stage, blob in outputs.items():
        if not is_packed(blob):
            full[stage] = blob
            continue
        try:
            parts = unpacked(blob)
        except Rejected as error:
            raise ServerError(f"the output of {stage} cannot be read: {error}") from None
        for part in parts:
            content = full[f"{stage}.{part.name}"] = _content(part)
            short.setdefault(part.name, []).append(content)
    alone = {name: found[0] for name, found in short.items() if len(found) == 1}
    return alone | full


def _content(part: Part) -> "Content":
    if not part.datatype:
        return bytes(part.content)
    try:
        import numpy as np
    except ImportError:
        raise Misconfigured("the output is an array, and numpy is missing: install it") from None
    if part.datatype == BYTES:
        strings = np.empty(len(elements := elements_of(part.content)), np.object_)
        for place, element in enumerate(elements):
            strings[place] = bytes(element)
        return strings.reshape(part.shape)
    kind = np.dtype(_NAMES[part.datatype]).newbyteorder("<")
    return np.frombuffer(part.content, kind).reshape(part.shape)
