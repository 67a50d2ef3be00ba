"""Prometheus and Grafana are asked for numbers that there are."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from esg.controller.counters import Counters
from esg.controller.durability.dead_letters import DeadLetters
from esg.controller.metrics import MeshMetrics
from esg.core.metrics import CAPTION
from esg.gateway.metrics import RequestMetrics
from esg.invoker.handlers.metrics import HandlerMetrics
from esg.invoker.metrics import NodeMetrics
from esg.local.rooms import ROOMS
from esg.storage.metrics import RedisMetrics
from tests.deploy.engine import ROOT
from tests.deploy.rules import MESH, merged, rooms
from tests.support.desk import Desk
from tests.support.node import new_pool

DEPLOY = ROOT / "deploy"


def shown(desk: Desk) -> set[str]:
    """The names of all numbers that some process of a mesh shows."""
    registry = CollectorRegistry()
    registry.register(RequestMetrics(lambda: 0))
    dead_letters = DeadLetters(Path("none"), lambda: desk.scheduler)
    registry.register(MeshMetrics(lambda: desk.scheduler, Counters(), dead_letters))
    registry.register(NodeMetrics(new_pool()))
    registry.register(HandlerMetrics({}))
    registry.register(RedisMetrics())
    names = set()
    for family in registry.collect():
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
        names |= {family.name + ending for ending in endings.get(family.type, [""])}
    return names


def asked_for(queries: list[str]) -> set[str]:
    return {name for query in queries for name in re.findall(r"\besg_\w+", query)}


def test_every_panel_shows_numbers_that_there_are(desk: Desk) -> None:
    dashboard = json.loads((DEPLOY / "grafana/dashboards/esg.json").read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert asked_for(queries)
    queries += [one.get("definition", "") for one in dashboard["templating"]["list"]]
    assert asked_for(queries) <= shown(desk)


def test_every_alert_looks_at_numbers_that_there_are(desk: Desk) -> None:
    alerts = _read("prometheus/alerts.yml")
    queries = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    assert asked_for(queries) <= shown(desk)


def test_hit_rate_and_cost_have_their_definition_beside_them() -> None:
    dashboard = json.loads((DEPLOY / "grafana/dashboards/esg.json").read_text("utf-8"))
    titles = {
        panel["title"] for panel in dashboard["panels"] if CAPTION in panel.get("description", "")
    }
    assert titles == {
        "SLO hit rate",
        "Cost per thousand requests",
        "Latency, median",
        "Latency, 99th percentile",
    }


def test_prometheus_reads_every_process_of_a_mesh_with_a_certificate() -> None:
    mesh = merged(MESH)
    jobs = _read("prometheus/prometheus.yml")["scrape_configs"]
    targets = {t for job in jobs for one in job.get("static_configs", []) for t in one["targets"]}
    assert targets == {"gateway:9464", "controller:9464"}
    named = [(o["names"], o["port"]) for job in jobs for o in job.get("dns_sd_configs", [])]
    assert named == [(["nodes"], 9464)]
    for node in ("invoker", "invoker-gpu"):
        assert mesh["services"][node]["networks"] == {"control": {"aliases": ["nodes"]}}
    assert rooms(mesh["services"]["prometheus"]) == ["secrets-observer:/run/secrets:ro"]
    given = {f"/run/secrets/{name}" for name in ROOMS["observer"]}
    for job in jobs:
        assert job["scheme"] == "https"
        assert {v for k, v in job["tls_config"].items() if k.endswith("_file")} == given


def test_grafana_finds_its_dashboard_and_its_source() -> None:
    mesh = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    grafana = mesh["services"]["grafana"]
    here = grafana["environment"]["GF_PATHS_PROVISIONING"]
    assert f"./deploy/grafana:{here}:ro" in grafana["volumes"]
    (provider,) = _read("grafana/dashboards/dashboards.yml")["providers"]
    assert provider["options"]["path"] == f"{here}/dashboards"
    (source,) = _read("grafana/datasources/prometheus.yml")["datasources"]
    dashboard = json.loads((DEPLOY / "grafana/dashboards/esg.json").read_text("utf-8"))
    assert source["isDefault"]
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert (variables["source"]["type"], variables["source"]["query"]) == (
        "datasource",
        source["type"],
    )
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${source}"}


def test_applications_and_nodes_of_the_dashboard_can_be_chosen() -> None:
    dashboard = json.loads((DEPLOY / "grafana/dashboards/esg.json").read_text("utf-8"))
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    for name in ("application", "node"):
        assert variables[name]["definition"].endswith(f", {name})")
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for query in queries:
        for name in ("application", "node"):
            if re.search(rf"by \([^)]*\b{name}\b", query):
                assert f'{name}=~"${name}"' in query


def _read(file: str) -> Any:
    return yaml.safe_load((DEPLOY / file).read_text("utf-8"))
