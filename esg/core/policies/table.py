"""The policies, by name. Adding one is a file here and an entry in the table below."""

from collections.abc import Callable
from dataclasses import dataclass

from esg.core.catalog.model import Catalog
from esg.core.policies.apex.features import left_out
from esg.core.policies.apex.policy import Apex, BatchPlansCache
from esg.core.policies.aquatope import Aquatope
from esg.core.policies.esg import Engines, Esg
from esg.core.policies.fast_gshare import FastGShare
from esg.core.policies.infless import Infless, Reading
from esg.core.policies.interface import Policy
from esg.core.policies.orion import NODES_PER_MS, Aim, Orion
from esg.core.policies.outside import outside_policies, outside_policy
from esg.core.policies.settings import PolicySettings
from esg.errors import Rejected
from esg.suggest import did_you_mean

Maker = Callable[[Catalog], Policy]
"""Makes a policy for a catalog. Those that one maker makes share, for applications that their
catalogs have in common, what is dear to build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKind:
    """One entry of the table: how the policy is made, and the facts about it.

    `reading` is what it does, in a sentence or two. `uses` names the settings that have an effect
    on it.
    """

    maker: Callable[[PolicySettings], Maker]
    reading: str
    uses: frozenset[str] = frozenset()


def _apex(settings: PolicySettings) -> Maker:
    cache, without = BatchPlansCache(), left_out(settings.without)
    return lambda catalog: Apex(catalog, cache, without=without, locality=settings.locality)


def _esg(settings: PolicySettings) -> Maker:
    engines = Engines(settings.engine, group_size=settings.group_size)
    return lambda catalog: Esg(catalog, engines, k=settings.k, locality=settings.locality)


def _orion(aim: Aim) -> Callable[[PolicySettings], Maker]:
    def maker(settings: PolicySettings) -> Maker:
        steps_per_ms = settings.search_steps_per_ms or NODES_PER_MS
        cutoff_nodes = max(1, settings.orion_cutoff_ms * steps_per_ms)
        locality = settings.locality
        return lambda catalog: Orion(catalog, aim=aim, cutoff_nodes=cutoff_nodes, locality=locality)

    return maker


def _infless(reading: Reading) -> Callable[[PolicySettings], Maker]:
    return lambda settings: lambda catalog: Infless(catalog, reading)


def _fast_gshare(*, lean: bool) -> Callable[[PolicySettings], Maker]:
    return lambda settings: lambda catalog: FastGShare(catalog, lean=lean)


def _aquatope(settings: PolicySettings) -> Maker:
    return lambda catalog: Aquatope(catalog, settings.trained, locality=settings.locality)


_ORION_USES = frozenset({"locality", "orion_cutoff_ms", "search_steps_per_ms"})

POLICIES: dict[str, PolicyKind] = {
    "apex": PolicyKind(
        maker=_apex,
        uses=frozenset({"locality", "without"}),
        reading="Ours: plans with measured times and weighs the risk to be late, holds jobs where "
        "a fuller batch is worth it, and keeps room for those that can still make it.",
    ),
    "esg": PolicyKind(
        maker=_esg,
        uses=frozenset({"engine", "group_size", "k", "locality"}),
        reading="Before every stage anew, the cheapest configs for all stages to come that keep "
        "the deadline by their mean times.",
    ),
    "infless": PolicyKind(
        maker=_infless(Reading.PER_WEIGHT),
        reading="A function at a time, within a fixed share of the SLO. Of all pairs of config and "
        "node it takes the one with the most throughput per weight of what the config takes, "
        "divided by the fraction of the node that is then left free: the published idea.",
    ),
    "infless-code": PolicyKind(
        maker=_infless(Reading.AS_CODED),
        reading="The same without dividing by what the config takes, which is what its public code "
        "computes.",
    ),
    "infless-config-first": PolicyKind(
        maker=_infless(Reading.CONFIG_FIRST),
        reading="Throughput per weight alone chooses the config; the fraction left free only "
        "chooses the node.",
    ),
    "fast-gshare": PolicyKind(
        maker=_fast_gshare(lean=False),
        reading="A function at a time, within a fixed share of the SLO: the config with the most "
        "throughput per vGPU, on the node that it fits most tightly. Read to the letter, vCPUs "
        "count for nothing, so that a task takes as many as make it a little faster.",
    ),
    "fast-gshare-lean": PolicyKind(
        maker=_fast_gshare(lean=True),
        reading="The same, but each pair of batch and vGPUs gets no more vCPUs than it needs to "
        "keep its share of the SLO.",
    ),
    "orion": PolicyKind(
        maker=_orion(Aim.LOW),
        uses=_ORION_USES,
        reading="The whole pipeline once, when its first stage is scheduled. From the minimum "
        "config of every stage, best-first search takes up the state with the lowest P95, until "
        "one is within the SLO.",
    ),
    "orion-at-slo": PolicyKind(
        maker=_orion(Aim.AT_SLO),
        uses=_ORION_USES,
        reading="The same search, but for the P95 that is closest to the SLO, until one is within "
        "it by at most a percent: what time is left goes into larger batches.",
    ),
    "aquatope": PolicyKind(
        maker=_aquatope,
        uses=frozenset({"locality", "trained"}),
        reading="One config per stage, learnt before by Bayesian optimisation from runs of the "
        "application alone, and never revised.",
    ),
}


def learns(name: str) -> bool:
    """Whether a policy has to be trained offline before it can run."""
    return name in POLICIES and "trained" in POLICIES[name].uses


def policy_kind(name: str) -> PolicyKind:
    """The named policy, of this table or from outside."""
    if name in POLICIES:
        return POLICIES[name]
    made = outside_policy(name)
    if made is None:
        known = [*POLICIES, *outside_policies()]
        raise Rejected(did_you_mean("policy", name, known))
    return PolicyKind(maker=lambda settings: made, reading="A policy from outside.")


def policy_maker(name: str, settings: PolicySettings | None = None) -> Maker:
    """What makes the named policy, for any catalog."""
    return policy_kind(name).maker(settings or PolicySettings())


def policy(name: str, catalog: Catalog, settings: PolicySettings | None = None) -> Policy:
    """The named policy for one catalog."""
    return policy_maker(name, settings)(catalog)
