"""The mesh at one moment, for people who watch it."""

from collections.abc import Mapping

from esg.controller.counters import Counters
from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import counts
from esg.core.catalog.unplanned import planned_on
from esg.core.estimation.drift import Drift, drifts
from esg.core.messages.task_order import TaskOrder
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import State
from esg.protos import model_v1_pb2 as model
from esg.units import PPM


def mesh_status(
    state: State,
    catalog: Catalog,
    tally: Counters,
    orders: Mapping[str, TaskOrder],
    *,
    policy: str,
    began_us: int,
    now_us: int,
    refusing: str = "",
) -> model.MeshStatus:
    return model.MeshStatus(
        uptime_us=now_us - began_us,
        policy=policy,
        queues=_queues(state, now_us),
        nodes=[_node(node, orders) for node in state.nodes.values()],
        applications=[
            tally.applications[name].to_wire(name) for name in sorted(tally.applications)
        ],
        under_way=len(state.requests),
        local_transfers=tally.local_transfers,
        remote_transfers=tally.remote_transfers,
        tasks=tally.tasks,
        jobs=tally.jobs,
        cold_starts=tally.cold_starts,
        profiles=[_profile(drift) for drift in drifts(state, catalog)],
        kinds=_kinds(state, catalog),
        refusing=refusing,
    )


def _kinds(state: State, catalog: Catalog) -> list[model.KindStatus]:
    found = counts(part.kind for node in state.nodes.values() for part in node.slices)
    return [
        model.KindStatus(
            kind=each.kind,
            slices=found[kind],
            unprofiled=each.unprofiled,
            too_large=each.too_large,
            nothing=each.nothing,
        )
        for kind, each in ((kind, planned_on(catalog, kind)) for kind in sorted(found))
    ]


def _profile(drift: Drift) -> model.ProfileStatus:
    return model.ProfileStatus(
        function=drift.function,
        batch=drift.batch,
        kind=drift.kind,
        tasks=drift.tasks,
        profiled_us=drift.profiled_us,
        measured=drift.measured_ppm / PPM,
        planned=drift.planned_ppm / PPM,
    )


def _queues(state: State, now_us: int) -> list[model.QueueStatus]:
    running: dict[tuple[str, str], int] = {}
    for task in state.tasks.values():
        key = task.application, task.stage
        running[key] = running.get(key, 0) + len(task.requests)
    return [
        model.QueueStatus(
            application=queue.application,
            stage=queue.stage,
            waiting=len(queue.jobs),
            running=running.get((queue.application, queue.stage), 0),
            oldest_us=now_us - min([job.ready_us for job in queue.jobs], default=now_us),
        )
        for queue in state.queues.values()
    ]


def _node(node: NodeBooks, orders: Mapping[str, TaskOrder]) -> model.NodeStatus:
    slices = []
    for part in node.slices:
        order = orders.get(part.holder)
        slices.append(
            model.SliceStatus(
                task=part.holder,
                function=order.function if order is not None else "",
                resident=[name for name, model_ in part.residents.items() if model_.ready],
                loading=[name for name, model_ in part.residents.items() if not model_.ready],
                lost=not part.usable,
                kind=part.kind,
            )
        )
    return model.NodeStatus(
        node=node.invoker, vcpus=node.vcpus, vcpus_free=node.vcpus_free, slices=slices
    )
