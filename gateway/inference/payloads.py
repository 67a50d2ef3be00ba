"""Named tensors as the payloads of requests, and outputs of stages as named tensors.

A request of the protocol may hold a batch: every tensor has one dimension more than the model's
input, the first, and that many requests are made of it. To the protocol bytes are tensors, too:

    bytes of a media type    BYTES [1], a byte string; or UINT8 [n], the same bytes one by one
    image/*                  also UINT8 [height, width, channels]: pixels, sent on as a PNG
    a tensor                 as it is declared
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from esg.core.catalog.ports import ANY_LENGTH, Port
from esg.errors import Rejected
from esg.gateway.inference.models import Model, check_known
from esg.gateway.inference.pixels import CHANNELS, png
from esg.parts import NAMELESS, Part, is_packed, packed, unpacked
from esg.runtime.rpc.status import InvalidRequest, ServerError
from esg.suggest import did_you_mean
from esg.tensors import BYTES, DATATYPES, Piece, behind_lengths, check_content, elements_of

UINT8 = "UINT8"
IMAGE = "image/"
Blob = bytes | memoryview


class Tensor(NamedTuple):
    """A tensor with a name, and its raw content."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    content: Piece


class Payloads(NamedTuple):
    """A payload for each request of a batch. One that is not `batched` is no batch of one: its
    tensors have no dimension for it, and so the answer's have none."""

    contents: list[bytes]
    batched: bool


def shape_of(port: Port) -> tuple[str, tuple[int, ...]]:
    """The datatype and shape that a port has in the protocol, without the batch."""
    return (port.datatype, port.shape) if port.datatype else (BYTES, (1,))


def payloads(model: Model, tensors: Sequence[Tensor], most: int) -> Payloads:
    """What the tensors of one request are to an application; refused unless they are its inputs."""
    check_known(model, [tensor.name for tensor in tensors])
    by_name = {tensor.name: tensor for tensor in tensors}
    found = {port.name: _items(port, by_name[port.name], model, most) for port in model.inputs}
    batches = {name: items.requests if items.batched else None for name, items in found.items()}
    if len(set(batches.values())) > 1:
        told = ", ".join(f"{name}: {count or 'none'}" for name, count in batches.items())
        raise InvalidRequest(f"the inputs are batches of different sizes ({told}); send equal ones")
    if not model.packs:
        (items,) = found.values()
        return Payloads(
            [bytes(items.part(n).content) for n in range(items.requests)], items.batched
        )
    count = min(items.requests for items in found.values())
    contents = [packed(items.part(n) for items in found.values()) for n in range(count)]
    return Payloads(contents, any(items.batched for items in found.values()))


def fitted(model: Model, content: bytes, *, in_parts: bool) -> bytes:
    """The payload of an application, of bytes, or of parts that a client packed."""
    if not in_parts and not (model.packs and is_packed(content)):
        if model.packs:
            raise InvalidRequest(f"the payload is bytes; {model.expected}: send them by name")
        return content
    tensors = [_sent(part) for part in unpacked(content)]
    if len(tensors) == len(model.inputs) == 1 and tensors[0].name == NAMELESS:
        tensors = [tensors[0]._replace(name=model.inputs[0].name)]
    (payload,), batched = payloads(model, tensors, most=1)
    if batched:
        raise InvalidRequest(f"the inputs have a dimension for a batch; {model.expected}")
    return payload


class _Items(NamedTuple):
    """One input, for each request of a batch."""

    requests: int
    batched: bool
    part: Callable[[int], Part]


def _items(port: Port, tensor: Tensor, model: Model, most: int) -> _Items:
    _, datatype, shape, content = tensor
    try:
        if datatype not in DATATYPES:
            raise Rejected(did_you_mean("datatype", datatype, DATATYPES))
        check_content(datatype, shape, content)
    except Rejected as error:
        raise InvalidRequest(f"input {port.name}: {error}") from None
    rank = _rank(port, datatype, shape)
    own = shape[len(shape) - rank :] if rank is not None else ()
    if rank is None or len(shape) - rank not in (0, 1) or not _is_for(port, datatype, own):
        usual, dims = shape_of(port)
        raise InvalidRequest(
            f"input {port.name} is {datatype} {list(shape)}; {model.name} takes {usual} "
            f"{[ANY_LENGTH, *dims]} ({port.kind}), the first dimension being requests"
        )
    batched = len(shape) > rank
    count = shape[0] if batched else 1
    if not 0 < count <= most:
        raise InvalidRequest(f"a batch of {count}; it must be of 1 to {most} requests")
    if datatype == BYTES:
        elements = elements_of(content)
        each = len(elements) // count
        if not port.datatype:
            return _Items(count, batched, lambda n: Part(port.name, elements[n]))

        def strings(n: int) -> Part:
            own_elements = elements[n * each : (n + 1) * each]
            return Part(port.name, b"".join(behind_lengths(own_elements)), BYTES, own)

        return _Items(count, batched, strings)
    view, size = memoryview(content), len(content) // count

    def part(n: int) -> Part:
        own_bytes = view[n * size : (n + 1) * size]
        if port.datatype:
            return Part(port.name, own_bytes, datatype, own)
        return Part(port.name, png(own, own_bytes) if len(own) == 3 else own_bytes)

    return _Items(count, batched, part)


def _rank(port: Port, datatype: str, shape: Sequence[int]) -> int | None:
    """How many dimensions one request's part has."""
    if port.datatype:
        return len(port.shape)
    if datatype == BYTES:
        return 1
    if datatype != UINT8:
        return None
    return 1 if len(shape) <= 2 else 3


def _is_for(port: Port, datatype: str, shape: Sequence[int]) -> bool:
    if port.datatype:
        return port.takes(datatype, shape)
    if datatype == BYTES:
        return shape == (1,)
    if len(shape) == 3:
        return port.media_type.startswith(IMAGE) and shape[2] in CHANNELS and prod(shape) > 0
    return len(shape) == 1


def _sent(part: Part) -> Tensor:
    """What a client packed; bytes are a byte string."""
    if part.datatype:
        return Tensor(part.name, part.datatype, part.shape, part.content)
    return Tensor(part.name, BYTES, (1,), b"".join(behind_lengths([part.content])))


# ---- and back


def answer(
    model: Model, items: Sequence[Mapping[str, Blob]], wanted: Sequence[str], *, batched: bool
) -> list[Tensor]:
    """The outputs of the requests of a batch, each by stage, as tensors: those that are wanted, or
    all of them."""
    names = wanted or list(model.outputs)
    opened = [{stage: _opened(model, stage, blob) for stage, blob in i.items()} for i in items]
    return [_stacked(model, name, opened, batched=batched) for name in names]


def check_wanted(model: Model, wanted: Iterable[str]) -> None:
    for name in wanted:
        if name not in model.outputs:
            raise InvalidRequest(did_you_mean("output", name, model.outputs))


def _opened(model: Model, stage: str, blob: Blob) -> list[Part]:
    if stage not in model.packed_stages:
        return [Part("", blob)]
    try:
        return unpacked(blob)
    except Rejected as error:
        raise ServerError(f"the output of {stage} is not as declared: {error}") from None


def _stacked(
    model: Model, name: str, items: Sequence[Mapping[str, Sequence[Part]]], *, batched: bool
) -> Tensor:
    output = model.outputs[name]
    parts = [_part(item.get(output.stage, ()), output.name) for item in items]
    if any(part is None for part in parts):
        raise ServerError(f"{model.name} gave no {name}; it was changed meanwhile: try again")
    found = [part for part in parts if part is not None]
    first = found[0]
    if not output.port.datatype:
        content: Piece = b"".join(behind_lengths(part.content for part in found))
        return Tensor(name, BYTES, (len(found), 1) if batched else (1,), content)
    if any((part.datatype, part.shape) != (first.datatype, first.shape) for part in found):
        raise InvalidRequest(
            f"the outputs {name} of this batch differ in shape; send the requests one by one"
        )
    shape = (len(found), *first.shape) if batched else first.shape
    content = b"".join(part.content for part in found) if len(found) > 1 else first.content
    return Tensor(name, first.datatype, shape, content)


def _part(parts: Sequence[Part], name: str) -> Part | None:
    return next((part for part in parts if part.name in (name, "")), None)
