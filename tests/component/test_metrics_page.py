"""docs/metrics.md has every metric of every service, and nothing else."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from esg.controller.counters import Counters
from esg.controller.durability.dead_letters import DeadLetters
from esg.controller.metrics import MeshMetrics
from esg.core.state.state import Measured
from esg.gateway.metrics import RequestMetrics
from esg.invoker.handlers.metrics import HandlerMetrics
from esg.invoker.metrics import NodeMetrics
from esg.storage.metrics import RedisMetrics
from esg.units import ms
from tests.support.desk import Desk, arrived, joined
from tests.support.node import Node, start
from tests.support.paths import ROOT

ROW = re.compile(r"^\| `(esg_\w+)` \| (\w+) \| ([\w, ]*?) ?\| .+ \|$", re.MULTILINE)

Described = dict[str, tuple[str, list[str]]]
"""Type and labels of metrics, by their names."""


def described(section: str) -> Described:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = ROW.findall(text)
    assert len(rows) == text.count("| `esg_")
    return {name: (kind, sorted(filter(None, labels.split(", ")))) for name, kind, labels in rows}


def exported(collectors: Iterable[Collector]) -> Described:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    found: Described = {}
    for family in registry.collect():
        assert family.samples, f"{family.name} has no labels to compare"
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = (family.type, sorted(labels))
    return found


def controller(desk: Desk) -> list[Collector]:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    desk.scheduler.state.measured["detect"] = [Measured(1, tasks=1, paces_ppm=[1_000_000])]
    dead_letters = DeadLetters(Path("none"), lambda: desk.scheduler)
    return [MeshMetrics(lambda: desk.scheduler, Counters(), dead_letters)]


def gateway(_: Desk) -> list[Collector]:
    metrics = RequestMetrics(lambda: 0)
    metrics.begin("photo")
    return [metrics]


def node(_: Desk) -> list[Collector]:
    running = Node()
    running.at(0, start("t1", "blur", 0))
    handlers = HandlerMetrics({"died": 0})
    handlers.begin(["blur"])
    return [NodeMetrics(running.pool), handlers]


def redis(_: Desk) -> list[Collector]:
    metrics = RedisMetrics()
    metrics.connection("data")
    return [metrics]


@pytest.mark.parametrize(
    ("section", "made"),
    [("Controller", controller), ("Gateway", gateway), ("Node", node), ("Redis", redis)],
)
def test_page_has_every_metric_with_its_type_and_labels(
    desk: Desk, section: str, made: Callable[[Desk], list[Collector]]
) -> None:
    exports = exported(made(desk))
    desk.scheduler.state.measured.clear()  # for the desk tells its story again
    assert described(section) == exports
