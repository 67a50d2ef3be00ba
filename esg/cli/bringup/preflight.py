"""What would keep a mesh from coming up, seen before any process of it is started."""

from esg.errors import Rejected
from esg.invoker.slices.mig import find_instances
from esg.invoker.triton.install import find_triton
from esg.local.options import Chosen
from esg.runtime.security.plain import INSIST, is_loopback
from esg.runtime.security.policy import public_door
from esg.runtime.settings import GatewaySettings, InvokerSettings
from esg.runtime.slice_kinds import Cpu, Mig, parse_slices


def check_door(chosen: Chosen) -> None:
    """Refuse an open door without security: the gateway would refuse as well, in the words of its
    settings."""
    own = chosen.settings.of(GatewaySettings)
    plain = not chosen.secure and public_door(chosen.common, own).server is None
    if plain and not chosen.common.insecure and not is_loopback(own.host):
        raise Rejected(f"would listen on {own.host} without TLS; use --secure, or set {INSIST}")


def check_slices(chosen: Chosen) -> None:
    """Whether what real slices need is on this machine."""
    own = chosen.settings.of(InvokerSettings)
    kind = parse_slices(own.slices)
    if isinstance(kind, Mig):
        find_instances()
    if isinstance(kind, Mig | Cpu):
        find_triton(own.triton)
