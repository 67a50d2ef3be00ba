"""A look at a mesh before anything is sent to it: what it can carry, and what will not go well.

What it can carry is worked out from what its gateway tells (nodes, vCPUs, slices, applications with
their deadlines, how far tasks are from their profiles) and from the profiles in the catalog, by
`esg.emulator.throughput`: a bound that no schedule exceeds, and that good ones come close to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean

from esg.client import MeshStatus
from esg.console.formatting import counted
from esg.core.catalog.model import Application, Catalog, Function
from esg.core.catalog.slice_kinds import counts
from esg.core.catalog.unplanned import real_name
from esg.emulator.scenario import applied
from esg.emulator.throughput import Size, most_per_s
from esg.errors import Rejected
from esg.loadgen.emulated import conditions_at_home, conditions_of
from esg.loadgen.target import Target
from esg.workload.plan import Workload

COMFORTABLE = 0.85
"""The share of the bound from which on some requests are late with the default policy."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a cluster can carry of a mix of applications."""

    most_per_s: float
    cluster: str
    """In words: how many nodes, with what."""

    @property
    def text(self) -> str:
        return f"{self.cluster} can carry at most {self.most_per_s:.3g}/s of these applications"


def outlook(plan: Workload, target: Target | None, catalog: Catalog) -> Outlook:
    """Of the mesh, or where there is none of the catalog's cluster; what cannot be told is
    refused."""
    if target is None:
        catalog, scenario = conditions_at_home(catalog)
        each = list(catalog.cluster.each())
        nodes, vcpus = len(each), sum(node.vcpus for node in each)
        kinds = counts(kind for node in each for kind in node.slices)
    else:
        status = target.status
        if not status.nodes:
            raise Rejected("the mesh has no nodes, so it can carry nothing; see esg top")
        catalog, scenario = conditions_of(target, catalog)
        nodes, vcpus = len(status.nodes), sum(node.vcpus for node in status.nodes)
        kinds = counts(part.kind for node in status.nodes for part in node.slices if not part.lost)
        catalog = _as_measured(catalog, status)
    seen = applied(catalog, scenario).applications
    weights = plan.weights(list(seen))
    mix = {seen[name]: weight for name, weight in weights.items()}
    planned = {kind: count for kind, count in kinds.items() if kind in catalog.kinds}
    vgpus = sum(kinds.values())
    words = f"{counted(nodes, 'node')} with {vcpus} vCPUs and {vgpus} vGPUs"
    if any(kinds):
        named = [f"{count} x {real_name(catalog, kind)}" for kind, count in kinds.items()]
        words += f" ({', '.join(named)})"
    return Outlook(most_per_s(mix, Size(vcpus, sum(planned.values()), planned)), words)


def resolved(plan: Workload, found: Outlook) -> Workload:
    """A plan whose rate is a share of what a mesh can carry, at that rate."""
    if plan.share is None:
        return plan
    per_s = plan.share * found.most_per_s
    if not per_s:
        raise Rejected(
            f"rate {plan.rate}: {found.text}; give a share above 0, of a mesh with nodes"
        )
    return plan.at(per_s)


def warnings(plan: Workload, target: Target, found: Outlook | None) -> Iterator[str]:
    """What a user should know before the load begins."""
    status = target.status
    if status.refusing:
        yield f"the mesh takes no new requests: {status.refusing}"
    if not status.nodes:
        yield "the mesh has no nodes; requests wait until one joins, see esg top"
        return
    if not any(part.resident for node in status.nodes for part in node.slices):
        yield (
            "no models are loaded: the first requests of each application will be late (esg up "
            "loads emulated ones at its start, unless it is told --cold-start)"
        )
    per_s = plan.mean_per_s()
    if found is None or per_s is None or per_s <= COMFORTABLE * found.most_per_s:
        return
    if per_s > found.most_per_s:
        yield (
            f"{per_s:.3g}/s is beyond this mesh: {found.text} in time, so requests will be late or "
            "refused; --rate 80% is a share of what it can carry"
        )
    else:
        share = per_s / found.most_per_s
        yield f"{per_s:.3g}/s is close to the limit ({share:.0%}): {found.text}; some may be late"


def _as_measured(catalog: Catalog, status: MeshStatus) -> Catalog:
    """The catalog with the times that the mesh plans with, where they are not the profiled ones."""
    factors: dict[str, list[float]] = {}
    for profile in status.profiles:
        factors.setdefault(profile.function, []).append(profile.planned)

    def corrected(function: Function) -> Function:
        factor = fmean(factors.get(function.name) or [1.0])
        if factor == 1:
            return function
        return replace(function, profile=function.profile.scaled(factor, catalog.prices))

    def rebuilt(application: Application) -> Application:
        slo_us = application.slo_us
        return replace(application.with_functions(corrected), slo_us=slo_us)

    applications = {name: rebuilt(one) for name, one in catalog.applications.items()}
    functions = {name: corrected(one) for name, one in catalog.functions.items()}
    return replace(catalog, applications=applications, functions=functions)
