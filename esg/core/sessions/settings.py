"""The time-outs of a node's session with the controller: defaults for services and simulations."""

from dataclasses import dataclass

from esg.units import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """How long a node may be silent, or away, before it is given up."""

    heartbeat_us: int = seconds(1)
    """How often a node sends its inventory."""
    lost_after_us: int = seconds(5)
    """A node that has been silent for so long is lost."""
    rejoin_us: int = seconds(1)
    """How long a node whose stream broke may take to come back."""
    return_us: int = seconds(5)
    """How long nodes may take at least to find a controller that was started again: they try again
    and again, with pauses in between."""
