"""What would keep a mesh from coming up, seen before any process of it is started."""

import sys
from pathlib import Path

from esg.cli.bringup.slices_told import ToldSlices
from esg.console.catalog import deadline_complaints, read_catalog
from esg.console.formatting import counted
from esg.core.catalog.on_kinds import OnKinds
from esg.errors import Rejected
from esg.invoker.slices.gpus import find_devices
from esg.invoker.triton.install import find_triton
from esg.local.options import Chosen
from esg.runtime.catalog import load
from esg.runtime.security.plain import INSIST, is_loopback
from esg.runtime.security.policy import public_door
from esg.runtime.settings import GatewaySettings, InvokerSettings
from esg.runtime.slice_setting import Auto, Cpu, Gpu, Mig, parse_slices


def check_door(chosen: Chosen) -> None:
    """Refuse an open door without security: the gateway would refuse as well, in the words of its
    settings."""
    own = chosen.settings.of(GatewaySettings)
    plain = not chosen.secure and public_door(chosen.common, own).server is None
    if plain and not chosen.common.insecure and not is_loopback(own.host):
        raise Rejected(f"would listen on {own.host} without TLS; use --secure, or set {INSIST}")


def check_deadlines(chosen: Chosen) -> None:
    """Refuse a catalog with an application that can never be in time, as its registration at run
    time would be."""
    path = Path(chosen.common.catalog) if chosen.common.catalog else None
    known = read_catalog(path)
    slices = ToldSlices.of(chosen.settings.of(InvokerSettings), known, chosen.nodes)
    complaints = deadline_complaints(OnKinds(slices.kinds).of(known), path)
    if complaints:
        others = len(complaints) - 1
        raise Rejected(complaints[0] + (f" (and {counted(others, 'other')})" if others else ""))


def warn_of_slices(chosen: Chosen) -> None:
    """Say on stderr what is not planned on the slices of this mesh, and how to change that."""
    own = chosen.settings.of(InvokerSettings)
    for note in ToldSlices.of(own, load(chosen.common), chosen.nodes).notes:
        print(f"warning: {note}", file=sys.stderr)


def check_slices(chosen: Chosen) -> None:
    """Whether what real slices need is on this machine."""
    own = chosen.settings.of(InvokerSettings)
    kind = parse_slices(own.slices)
    if isinstance(kind, Mig | Gpu | Auto):
        find_devices(kind)
    if isinstance(kind, Mig | Gpu | Auto | Cpu):
        find_triton(own.triton)
