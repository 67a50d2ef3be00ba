"""What happens to a mesh, and when: requests, changes, and everything that can go wrong."""

from dataclasses import dataclass

from esg.core.messages.events import ApplicationChange, RequestArrived


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestComes(Happening):
    """Through a gateway; perhaps to be fetched `later`."""

    event: RequestArrived
    gateway: str = "g0"
    later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLeaves(Happening):
    """Whoever waits for a request, through one gateway, waits no longer."""

    request: str
    gateway: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation(Happening):
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationChanges(Happening):
    event: ApplicationChange


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCrashes(Happening):
    """With all it has; an empty one starts in its place after a while. If its power fails, its end
    is not `noticed`: nothing ends its stream."""

    node: str
    for_us: int
    noticed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLeaves(Happening):
    """It wants no new work, and after a while it goes, whatever is left; then it starts again."""

    node: str
    after_us: int
    for_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReports(Happening):
    """Its inventory, as it sends it from time to time."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFails(Happening):
    """Its server is gone for a while, with its models and whatever it ran."""

    node: str
    slice: int
    for_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBreaks(Happening):
    """Between a node and the controller; the node makes another one after a while."""

    node: str
    for_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStalls(Happening):
    """Nothing gets through for a while, and nobody is told."""

    node: str
    for_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLinkBreaks(Happening):
    """Between a gateway and the controller; there is another one after a while."""

    for_us: int
    gateway: str = "g0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerCrashes(Happening):
    """`torn` is how much of what was not on disk yet, between 0 and 1, is there anyway: all of it
    if it is the process that has ended, and not the machine."""

    for_us: int
    torn: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumps(Happening):
    """The controller's."""

    by_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataExpires(Happening):
    """Whatever was published, except results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPoisoned(Happening):
    """The scheduler fails at the next event of this kind, when it has handled it and nobody has
    heard of that."""

    kind: str


Fault = (
    RequestComes
    | ClientLeaves
    | Cancellation
    | ApplicationChanges
    | NodeCrashes
    | NodeLeaves
    | NodeReports
    | SliceFails
    | StreamBreaks
    | StreamStalls
    | GatewayLinkBreaks
    | ControllerCrashes
    | ClockJumps
    | DataExpires
    | EventPoisoned
)
