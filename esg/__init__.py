"""ESG: a serving mesh that gives pipelines of DNN models their deadline at the least GPU cost.

Applications need two names of this package, which are loaded when they are used:

    from esg import Client, AsyncClient

`esg.client` has the types that they take and give. `esg.core` is where to start reading: the
deterministic scheduler and pool that the live services (`esg.controller`, `esg.invoker`), the
emulator and the replay all drive.
"""

from esg.version import __version__ as __version__

TYPE_CHECKING = False  # as `typing` has it, which takes milliseconds in which Ctrl-C is a traceback
if TYPE_CHECKING:
    from typing import Any

    from esg.client import AsyncClient as AsyncClient
    from esg.client import Client as Client

__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> "Any":
    """The client, which brings gRPC with it, only for those who ask for it (PEP 562)."""
    if name in ("AsyncClient", "Client"):
        from esg import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
