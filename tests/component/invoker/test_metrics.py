"""What Prometheus learns of a node."""

from prometheus_client import CollectorRegistry

from esg.core.messages.node import ExecutionEnded, SliceLost, TellScheduler
from esg.invoker.metrics import NodeMetrics
from esg.units import ms
from tests.support.node import Node, loaded, start, warm


def test_slices_models_and_tasks_are_counted() -> None:
    node = Node()
    metrics = NodeMetrics(node.pool)
    registry = CollectorRegistry()
    registry.register(metrics)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("esg_node_tasks_total", outcome="failed") == 0
    node.at(0, start("t1", "blur", 0), warm(1, "crop"))
    assert value("esg_node_slices", state="busy") == 1
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
    assert value("esg_node_slices", state="lost") == 1
    assert value("esg_node_slices", state="free") == 1
