"""What Prometheus learns of a node."""

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from esg.core.catalog.phases import Phases
from esg.core.messages.events import TaskFinished
from esg.core.messages.node import ExecutionEnded, SliceLost, TellScheduler
from esg.invoker.metrics import NodeMetrics
from esg.units import ms
from tests.support.node import Node, loaded, start, warm

PHASES = ("before", "slices", "after", "waited")


def test_phases_of_tasks_are_told_apart_and_from_their_waiting() -> None:
    metrics = NodeMetrics(Node().pool)
    registry = CollectorRegistry()
    registry.register(metrics)

    def phases(what: str) -> list[float | None]:
        name = f"esg_node_phase_seconds_{what}"
        return [registry.get_sample_value(name, {"phase": phase}) for phase in PHASES]

    joint = TaskFinished(task="t1", invoker="i0", loading_us=9_000_000, running_us=10_000_000)
    metrics.reported(joint)
    assert phases("count") == [0, 0, 0, 0]
    metrics.reported(replace(joint, phases=Phases(3_000_000, 2_000_000, 1_000_000)))
    assert phases("sum") == [3, 2, 1, 4]


def test_slices_models_and_tasks_are_counted() -> None:
    node = Node()
    metrics = NodeMetrics(node.pool)
    registry = CollectorRegistry()
    registry.register(metrics)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("esg_node_tasks_total", outcome="failed") == 0
    node.at(0, start("t1", "blur", 0), warm(1, "crop"))
    assert value("esg_node_slices", state="busy", kind="usual") == 1
    assert value("esg_node_models", function="blur", state="loading") == 1
    node.at(ms(40), loaded(0, "blur"))
    for command in node.at(ms(60), ExecutionEnded(task="t1")):
        if isinstance(command, TellScheduler):
            metrics.reported(command.event)
    assert value("esg_node_tasks_total", outcome="finished") == 1
    assert value("esg_node_loading_seconds_sum") == 0.04
    assert value("esg_node_running_seconds_sum") == 0.02
    assert value("esg_node_models", function="blur", state="ready") == 1
    node.at(ms(70), SliceLost(slice=0, reason="gone"))
    assert value("esg_node_slices", state="lost", kind="usual") == 1
    assert value("esg_node_slices", state="free", kind="usual") == 1
