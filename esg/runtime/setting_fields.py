"""Fields of settings: a default, a help text, and the bounds of a number."""

from dataclasses import field
from typing import Any

from esg.runtime.rpc.addresses import HIGHEST_PORT

NO_MAXIMUM = 10**12
"""Beyond this a number is a slip, whatever it is about."""


def setting(
    default: Any, help: str, *, minimum: float | None = None, maximum: float = NO_MAXIMUM
) -> Any:
    bounds = {"minimum": minimum, "maximum": maximum}
    return field(default=default, metadata={"help": help, **bounds})


def port_setting(default: int, help: str) -> Any:
    return setting(default, f"{help}; 0 for any free one", minimum=0, maximum=HIGHEST_PORT)


def metrics_port_setting() -> Any:
    return setting(
        0, "port of its Prometheus endpoint, /metrics; 0: none", minimum=0, maximum=HIGHEST_PORT
    )
