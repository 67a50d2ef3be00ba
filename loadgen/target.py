"""The mesh that requests are sent to, as its gateway tells before anything is sent: which
applications, on which nodes."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from esg.client import (
    ApplicationInfo,
    AsyncClient,
    ClientError,
    MeshStatus,
    Misconfigured,
    NoGateway,
    Unavailable,
)
from esg.console.exit_codes import NothingThere
from esg.core.catalog.model import Catalog
from esg.errors import Rejected


class Protocol(StrEnum):
    """What a server speaks that requests are sent to."""

    ESG = "esg"
    OIP = "oip"


RETRY_TIMEOUT_S = 1.0
"""A mesh that has just been started may need a moment."""
LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    gateway: str
    applications: dict[str, ApplicationInfo]
    status: MeshStatus

    @property
    def names(self) -> list[str]:
        return list(self.applications)

    def payload_sizes(self, catalog: Catalog, scale: float) -> dict[str, int]:
        """The sizes of payloads by application: what its first function takes, according to the
        catalog."""
        sizes = {}
        for name, application in self.applications.items():
            first = next(stage for stage in application.stages if not stage.after)
            if first.function not in catalog.functions:
                raise Rejected(
                    f"{name} begins with {first.function}, and the catalog does not say how large "
                    "its input is; name the mesh's catalog with --catalog, or give --payload DIR"
                )
            sizes[name] = round(scale * catalog.functions[first.function].input_bytes)
        return sizes


def ask(gateway: str, catalog: Catalog) -> Target:
    """The mesh at a gateway, with applications in the order of the catalog, then by name: a seed
    gives the same arrivals with and without a mesh.

    A gateway that does not answer is refused: nothing was sent, and all can be put right.
    """
    try:
        found, status = asyncio.run(asyncio.wait_for(_ask(gateway), LIMIT_S))
    except NoGateway as error:
        raise NothingThere(
            f"no gateway at {error.address}; start a mesh with esg up, or name its gateway: "
            "--gateway or ESG_GATEWAY (--dry-run works without one)"
        ) from None
    except Misconfigured:
        raise  # it says what to correct; nobody was called
    except (ClientError, TimeoutError) as error:
        raise Rejected(
            f"{gateway} does not answer as a gateway ({str(error) or 'it says nothing'}); "
            "correct --gateway or ESG_GATEWAY"
        ) from None
    known = [name for name in catalog.applications if name in found]
    others = sorted(found.keys() - known)
    return Target(gateway, {name: found[name] for name in (*known, *others)}, status)


async def _ask(gateway: str) -> tuple[dict[str, ApplicationInfo], MeshStatus]:
    async with AsyncClient(gateway, patience_s=RETRY_TIMEOUT_S) as client:
        applications = {found.name: found for found in await client.list_applications()}
        async for status in client.watch_mesh(0):
            return applications, status
    raise Unavailable("it did not tell the mesh's state")
