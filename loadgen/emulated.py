"""Emulation of the arrivals of a load, in virtual time: what the emulator says of a mesh like the
one at hand.

Nodes, policy, applications and SLOs are as the gateway tells them, and so is how fast time goes
there; whether models are loaded at the start is seen from its slices. Slices of a kind that the
catalog does not know are left out, as nothing is planned on them. What the gateway does not tell is
as a controller has it by default. What a stage takes beyond its profile is the emulator's guess:
see benchmarks/fidelity.py for a comparison that measures it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from esg.client.status import NodeStatus
from esg.core.catalog.cluster import Cluster
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.catalog.slice_kinds import NodeClass
from esg.core.messages.commands import Command, StartTask
from esg.core.messages.events import Event
from esg.core.metrics import Served
from esg.core.report import Report
from esg.emulator.run import emulate, requests
from esg.emulator.scenario import Scenario, sized
from esg.errors import Rejected
from esg.loadgen.outcome import Figures, LoadOutcome
from esg.loadgen.target import Target
from esg.names import plain_name
from esg.runtime.settings import ControllerSettings
from esg.units import ms, seconds
from esg.workload.arrivals import Arrival


def conditions_of(target: Target, catalog: Catalog) -> tuple[Catalog, Scenario]:
    """The conditions of a mesh, as a catalog and a scenario; `catalog` has its functions."""
    nodes = target.status.nodes
    if not nodes:
        raise Rejected("--emulate: the mesh has no nodes that could be emulated; see esg top")
    applications, factors = {}, []
    for name, told in target.applications.items():
        stages = [Stage(s.name, catalog.function(s.function), s.after) for s in told.stages]
        factor = ms(told.alone_ms) / Application.of(name, stages).alone_us
        factors.append(factor)
        slo_us = max(1, round(ms(told.slo_ms) / factor))
        applications[name] = Application.of(
            name, stages, slo_us=slo_us, late_requests=told.late_requests
        )
    scenario = replace(
        _by_default(_cluster_of(nodes, catalog)),
        policy=target.status.policy,
        warm_start=all(part.resident for node in nodes for part in node.slices),
        time_scale=_plain(factors[0]),
    )
    return replace(catalog, applications=applications), scenario


def _cluster_of(nodes: Sequence[NodeStatus], catalog: Catalog) -> Cluster:
    """The nodes of a mesh, with the slices that can be planned on."""
    each = [
        NodeClass(
            count=1,
            vcpus=node.vcpus,
            slices=tuple(part.kind for part in node.slices if part.kind in catalog.kinds),
        )
        for node in nodes
    ]
    if not any(one.slices for one in each):
        kinds = sorted({part.kind for node in nodes for part in node.slices})
        raise Rejected(
            f"the catalog knows nothing of the mesh's slices ({', '.join(kinds)}); give the one "
            "that the mesh has (--catalog)"
        )
    return Cluster.of(one for one in each if one.slices)


def _plain(factor: float) -> float:
    """A factor without the error of rounding: times are told in microseconds, so what they say of a
    factor is rounded.

    >>> _plain(0.9999987), _plain(0.1000004)
    (1.0, 0.1)
    """
    return round(factor, 4) or factor


def conditions_at_home(catalog: Catalog) -> tuple[Catalog, Scenario]:
    """The conditions of the catalog's own cluster, where there is no mesh to ask."""
    return catalog, _by_default(catalog.cluster)


def _by_default(cluster: Cluster) -> Scenario:
    """The scenario of a mesh with default settings: what it runs is not what the paper's evaluation
    has."""
    controller = ControllerSettings()
    return Scenario(
        policy=controller.policy,
        **sized(cluster),
        max_wait_us=seconds(controller.max_wait_s),
        max_waiting=controller.max_waiting,
        max_waiting_in_all=controller.max_waiting_in_all,
        fair_quantum_us=ms(controller.fair_quantum_ms),
    )


def run_emulated(catalog: Catalog, scenario: Scenario, arrivals: Iterable[Arrival]) -> LoadOutcome:
    """The outcome of the arrivals in the emulator, in the figures of a live run."""
    outcome = LoadOutcome()

    def watch(now_us: int, event: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, StartTask):
                jobs = len(command.order.jobs)
                for figures in _figures(outcome, plain_name(command.decision.application)):
                    figures.batches[jobs] += jobs

    found = emulate(catalog, scenario, requests(arrivals), observe=watch)
    _fold(found.report, outcome)
    return outcome


def _fold(report: Report, outcome: LoadOutcome) -> None:
    for name, tally in report.applications.items():
        for figures in _figures(outcome, name):
            figures.served = Served.total((figures.served, tally.served))
            for latency_us in tally.latency_us:
                figures.latencies.add(latency_us)


def _figures(outcome: LoadOutcome, application: str) -> tuple[Figures, Figures]:
    return outcome.total, outcome.by_application.setdefault(application, Figures())
