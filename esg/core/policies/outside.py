"""Policies from outside: `module:Class`, or an entry point of the group `esg.policies`.

Such a class is called with a catalog and has the methods of `esg.core.policies.interface.Policy`.
It must be as pure as the policies here are: without clock, chance or memory, or no replay is exact.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from esg.core.catalog.model import Catalog
from esg.core.policies.interface import Policy
from esg.errors import Rejected

GROUP = "esg.policies"
PARTS = ("order", "decide", "place", "search_steps_per_ms", "prewarm_all_stages")


def outside_policies() -> list[str]:
    """The names of the policies that installed distributions bring."""
    return sorted(entry_points(group=GROUP).names)


def outside_policy(name: str) -> Callable[[Catalog], Policy] | None:
    """What makes the named policy; None if the name is of none, or has no colon in it."""
    found = entry_points(group=GROUP, name=name)
    try:
        if found:
            return _checked(name, next(iter(found)).load())
        module, colon, attribute = name.partition(":")
        if not (module and colon and attribute):
            return None
        return _checked(name, getattr(import_module(module), attribute))
    except ImportError as error:
        raise Rejected(
            f"policy {name}: {error}; is its module in this folder, or installed?"
        ) from None
    except AttributeError as error:
        raise Rejected(f"policy {name}: {error}") from None


def _checked(name: str, made: Any) -> Callable[[Catalog], Policy]:
    missing = [part for part in PARTS if not hasattr(made, part)]
    if missing:
        raise Rejected(
            f"policy {name}: has no {', '.join(missing)}; CONTRIBUTING.md, Adding a policy, has an "
            "example"
        )
    maker: Callable[[Catalog], Policy] = made
    return maker
