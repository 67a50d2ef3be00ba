"""Ports: the named inputs and outputs of functions, and so of applications.

A port is a tensor, with a datatype and a shape, or bytes of a media type. In a function's manifest
or in the catalog:

    [inputs.picture]
    media_type = "image/*"

    [outputs.boxes]
    datatype = "FP32"
    shape = [-1, 4]                # -1: of any length

What a function does not declare is one input, `input`, or one output, `output`, of any bytes.

**Plain.** A function with one input of bytes reads each blob that it is given as it is, also those
of several stages before it; with one output of bytes its output is a blob. All others have their
inputs or outputs packed together in one blob (`esg.parts`).

**Edges.** An application's edges say which stages a stage reads; what of them goes where is
`connected`. A stage with one output feeds the next input, in the order of `after`; of a stage with
several, each goes to the input of its name. A single input of bytes takes from all stages before.
What is given must be what is taken, as far as both say: bytes of any kind fit everywhere that takes
bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from esg.core.catalog.toml_fields import TomlFields
from esg.errors import Rejected
from esg.parts import LONGEST_NAME, MOST_PARTS
from esg.suggest import did_you_mean
from esg.tensors import DATATYPES, LARGEST_DIMENSION, MOST_DIMENSIONS

OPAQUE = "application/octet-stream"
JSON = "application/json"
ANY_LENGTH = -1
SELECTED = "."
"""Stands between a stage and its output, in the name of an application's output."""


@dataclass(frozen=True, slots=True)
class Port:
    """A named input or output: a tensor if it has a datatype, otherwise bytes of a media type."""

    name: str
    media_type: str = ""
    datatype: str = ""
    shape: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """What it takes or gives.

        >>> Port("boxes", datatype="FP32", shape=(-1, 4)).kind, Port("picture", "image/*").kind
        ('FP32 [-1, 4]', 'image/*')
        """
        return f"{self.datatype} {list(self.shape)}" if self.datatype else self.media_type

    def takes(self, datatype: str, shape: Sequence[int]) -> bool:
        """Whether a tensor is one of those that this port is for; a shape may be open, too.

        >>> Port("boxes", datatype="FP32", shape=(-1, 4)).takes("FP32", (7, 4))
        True
        """
        return (
            datatype == self.datatype
            and len(shape) == len(self.shape)
            and all(
                ANY_LENGTH in pair or pair[0] == pair[1]
                for pair in zip(shape, self.shape, strict=True)
            )
        )

    def takes_output(self, given: "Port") -> bool:
        """Whether all that another port gives is good here, as far as both say."""
        if self.datatype or given.datatype:
            return self.takes(given.datatype, given.shape)
        return OPAQUE in (self.media_type, given.media_type) or _within(
            given.media_type, self.media_type
        )


Ports = tuple[Port, ...]

PLAIN_INPUT: Ports = (Port("input", OPAQUE),)
PLAIN_OUTPUT: Ports = (Port("output", OPAQUE),)


def is_plain(ports: Ports) -> bool:
    """Whether there is one, of bytes: then it is a blob as it is."""
    return len(ports) == 1 and not ports[0].datatype


def described(ports: Sequence[Port]) -> str:
    """
    >>> described([Port("picture", "image/*"), Port("boxes", "", "FP32", (-1, 4))])
    'picture (image/*), boxes (FP32 [-1, 4])'
    """
    return ", ".join(f"{port.name} ({port.kind})" for port in ports)


# ---- as they are declared


def declared_ports(fields: TomlFields, key: str, usual: Ports) -> Ports:
    """The tables `[inputs.NAME]` or `[outputs.NAME]` of a function, or the usual one."""
    if not fields.has(key):
        return usual
    ports = tuple(_port(fields, key, name, own) for name, own in fields.tables(key))
    if len(ports) > MOST_PARTS:
        raise fields.error(key, f"there are {len(ports)}; a function has at most {MOST_PARTS}")
    return ports


def _port(outer: TomlFields, key: str, name: str, fields: TomlFields) -> Port:
    if not name.isprintable() or not name or SELECTED in name or len(name) > LONGEST_NAME:
        raise outer.error(
            key,
            f"{name!r}: a name has 1 to {LONGEST_NAME} printable characters and no {SELECTED!r}; "
            "change it",
        )
    if fields.has("media_type") == fields.has("datatype"):
        raise fields.error(
            "media_type", "give either a media_type, for bytes, or a datatype, for a tensor"
        )
    if fields.has("media_type"):
        port = Port(name, _media_type(fields))
    else:
        datatype = fields.text("datatype")
        if datatype not in DATATYPES:
            raise fields.error("datatype", did_you_mean("datatype", datatype, DATATYPES))
        port = Port(name, datatype=datatype, shape=_shape(fields))
    fields.finish()
    return port


def _media_type(fields: TomlFields) -> str:
    said = fields.text("media_type")
    kind, slash, subtype = said.partition("/")
    if not (kind and slash and subtype and said.isprintable() and len(said) <= LONGEST_NAME):
        raise fields.error("media_type", f'is {said!r}; write it as in "image/*" or "{JSON}"')
    return said


def _shape(fields: TomlFields) -> tuple[int, ...]:
    shape = fields.whole_numbers_of("shape", minimum=ANY_LENGTH, maximum=LARGEST_DIMENSION)
    if len(shape) > MOST_DIMENSIONS:
        raise fields.error("shape", f"has {len(shape)} dimensions; at most {MOST_DIMENSIONS}")
    return tuple(shape)


def _within(given: str, taken: str) -> bool:
    """
    >>> _within("image/png", "image/*"), _within("image/*", "image/png")
    (True, False)
    """
    return given == taken or (taken.endswith("/*") and given.startswith(taken[:-1]))


# ---- edges

Source = tuple[int, str]
"""An output of a stage: its place among the stages before, and the output's name, which is empty if
it is the only one."""


def connected(inputs: Ports, given: Sequence[Sequence[str]]) -> dict[str, list[Source]]:
    """What feeds each input of a stage, of the stages before it: the names of the outputs of each,
    in the order of `after`. Refused unless every input is fed, and every stage feeds one.

    >>> picture, mask = Port("picture", "image/*"), Port("mask", "image/*")
    >>> connected((picture, mask), [["output"], ["mask", "score"]])
    {'picture': [(0, '')], 'mask': [(1, 'mask')]}
    """
    fed: dict[str, list[Source]] = {port.name: [] for port in inputs}
    in_order = [place for place, names in enumerate(given) if len(names) == 1]
    for place, names in enumerate(given):
        named = [name for name in names if name in fed]
        if len(names) > 1 and not named:
            raise Rejected(
                f"gives {', '.join(names)}, none of which is an input there ({', '.join(fed)}); "
                "call one of them as the other"
            )
        for name in named if len(names) > 1 else ():
            fed[name].append((place, name))
    if is_plain(inputs):
        fed[inputs[0].name] += [(place, "") for place in in_order]
        fed[inputs[0].name].sort()
        return fed
    waiting = [name for name, sources in fed.items() if not sources]
    for name, place in zip(waiting, in_order, strict=False):
        fed[name].append((place, ""))
    wrong = [name for name, sources in fed.items() if len(sources) != 1]
    if wrong or len(in_order) > len(waiting):
        raise Rejected(
            f"the inputs {', '.join(fed)} need one output each, and the stages before give "
            f"{'; '.join(', '.join(names) for names in given)}"
        )
    return fed


def check_edges(stage: str, inputs: Ports, before: Mapping[str, Ports]) -> None:
    """Refuse a stage whose inputs the outputs of the stages before do not fit."""
    names, outputs = list(before), list(before.values())
    try:
        fed = connected(inputs, [[port.name for port in ports] for ports in outputs])
    except Rejected as error:
        raise Rejected(f"stage {stage!r} after {', '.join(names)}: {error}") from None
    for port in inputs:
        for place, name in fed[port.name]:
            (giver,) = [g for g in outputs[place] if g.name == name or not name]
            if not port.takes_output(giver):
                raise Rejected(
                    f"stage {stage!r} takes {described([port])}, and {names[place]!r} before it "
                    f"gives {described([giver])}; put a stage between them that fits both"
                )


def outputs_by_name(outputs: Mapping[str, Ports]) -> dict[str, tuple[str, Port]]:
    """The outputs of an application by their names there, of the outputs of its last stages: as
    their functions call them, or, where several would be called so, `stage.output`.

    >>> mask, label = (Port("mask", "image/*"),), (Port("output", OPAQUE),)
    >>> list(outputs_by_name({"a": mask, "b": label, "c": label}))
    ['mask', 'b.output', 'c.output']
    """
    every = [(stage, port) for stage, ports in outputs.items() for port in ports]
    names = [port.name for _, port in every]
    return {
        port.name if names.count(port.name) == 1 else f"{stage}{SELECTED}{port.name}": (stage, port)
        for stage, port in every
    }
