"""The policies, by name. Adding one is a file here and a line in the table below."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.policies.apex.features import left_out
from esg.core.policies.apex.policy import Apex, BatchPlansCache
from esg.core.policies.aquatope import Aquatope
from esg.core.policies.esg import Engines, Esg
from esg.core.policies.fast_gshare import FastGShare
from esg.core.policies.infless import Infless, Reading
from esg.core.policies.interface import Policy
from esg.core.policies.orion import NODES_PER_MS, Aim, Orion
from esg.errors import Rejected
from esg.suggest import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """What can be set about policies; each uses what it knows of.

    Policies made with the same settings, for catalogs that have applications in common, share
    those applications' engines.
    """

    k: int = 5
    group_size: int = 3
    engine: str = "frontier"
    locality: bool = True
    orion_cutoff_ms: int = 100
    search_steps_per_ms: int | None = None
    """Search effort that counts as a millisecond, instead of each policy's own figure."""
    trained: Mapping[str, Mapping[str, Config]] = field(default_factory=dict)
    """Configs that were learnt offline, by application and stage, for policies that need them."""
    without: tuple[str, ...] = ()
    """Ingredients that policy apex does without (see `ingredients`)."""
    engines: Engines = field(init=False, repr=False, compare=False)
    companies: BatchPlansCache = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "engines", Engines(self.engine, group_size=self.group_size))
        object.__setattr__(self, "companies", BatchPlansCache())


def _orion(catalog: Catalog, settings: PolicySettings, aim: Aim) -> Orion:
    cutoff_nodes = max(1, settings.orion_cutoff_ms * (settings.search_steps_per_ms or NODES_PER_MS))
    return Orion(catalog, aim=aim, cutoff_nodes=cutoff_nodes, locality=settings.locality)


POLICIES: dict[str, Callable[[Catalog, PolicySettings], Policy]] = {
    "apex": lambda catalog, s: Apex(
        catalog, s.companies, without=left_out(s.without), locality=s.locality
    ),
    "esg": lambda catalog, s: Esg(catalog, s.engines, k=s.k, locality=s.locality),
    "infless": lambda catalog, _: Infless(catalog, Reading.PER_WEIGHT),
    "infless-code": lambda catalog, _: Infless(catalog, Reading.AS_CODED),
    "infless-config-first": lambda catalog, _: Infless(catalog, Reading.CONFIG_FIRST),
    "fast-gshare": lambda catalog, _: FastGShare(catalog),
    "fast-gshare-lean": lambda catalog, _: FastGShare(catalog, lean=True),
    "orion": lambda catalog, s: _orion(catalog, s, Aim.LOW),
    "orion-at-slo": lambda catalog, s: _orion(catalog, s, Aim.AT_SLO),
    "aquatope": lambda catalog, s: Aquatope(catalog, s.trained, locality=s.locality),
}


def policy(name: str, catalog: Catalog, settings: PolicySettings | None = None) -> Policy:
    """The named policy for a catalog."""
    if name not in POLICIES:
        raise Rejected(did_you_mean("policy", name, POLICIES))
    return POLICIES[name](catalog, settings or PolicySettings())
