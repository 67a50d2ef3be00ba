"""One story, told by everybody who counts: the same hit rate and the same cost, wherever one looks.

The story has requests that are done in time and late, that fail, are cancelled, dropped and refused
for overload, and some that cannot be asked for. docs/figures.md says what counts how.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from esg.cli.requests.top_view import Look, served_of
from esg.client import Result
from esg.client.results import result_of
from esg.client.status import MeshStatus, status_of
from esg.core.metrics import Served
from esg.emulator.history import replay_strictly
from esg.loadgen.outcome import LoadOutcome
from esg.loadgen.send import LoadSpec, send
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import error_of
from esg.units import ms
from esg.workload.arrivals import Arrival
from tests.support.controller_peers import (
    Peer,
    Running,
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    running_controller,
    submission,
)
from tests.support.paths import ROOT
from tests.support.small_catalog import SMALL
from tests.support.waiting import until

EXPECTED = {
    "photo": Served(done=3, in_time=2, failed=1, cancelled=1, overloaded=1, invalid=2),
    "rush": Served(dropped=1),
}
"""What becomes of the story's requests, without their costs."""
QUOTIENT = re.compile(r"(?:(\d+) \* )?(sum by .+?) / (sum by .+?\)\))(?: <.*)?")
RATE = re.compile(r"sum by \(application\) \(rate\((esg_\w+)(?:\{[^}]*\})?\[[^]]+\]\)\)")


@dataclass
class Told:
    """What was heard and seen of the story."""

    journal: Path
    status: MeshStatus
    metrics: CollectorRegistry
    notes: dict[str, Any]
    asked: dict[str, str] = field(default_factory=dict)  # by request: its application


class Story:
    """A gateway and a node that do one thing after the other to a controller."""

    def __init__(self, controller: Running, door: Peer, node: Peer) -> None:
        self._controller, self._door, self._node = controller, door, node
        self._orders = 0
        self.asked: dict[str, str] = {}

    async def ask(self, application: str, heard: str = "accepted", **more: Any) -> str:
        name = f"r{len(self.asked) + 1}"
        self.asked[name] = application
        self._door.say(submission(name, application, **more))
        await self.hears(name, heard)
        return name

    async def hears(self, request: str, kind: str) -> None:
        await until(lambda: any(note.request_id == request for note in self._door.of(kind)))

    async def task(self) -> str:
        self._orders += 1
        orders = await self._node.hears("start", self._orders)
        return str(orders[self._orders - 1].start.task)

    async def run(self, stages: int = 1, took_us: int = ms(10)) -> None:
        for _ in range(stages):
            task = await self.task()
            self._controller.clock[0] += took_us
            self._node.say(finished(task))

    async def fail(self) -> None:
        task = await self.task()
        self._node.say(wire.InvokerNote(failed=wire.TaskFailed(task=task, reason="no luck")))
        await until(lambda: task not in self._controller.state.tasks)

    async def go_on(self) -> None:
        """Later: what waits for a time has its turn. Whoever asks for the impossible wakes it."""
        self._controller.clock[0] += ms(25)
        await self.ask("photo", "refused", slo_us=1)

    async def tell(self) -> None:
        late = await self.ask("rush")  # its SLO is what it takes, and there is no node
        waiting = await self.ask("photo")
        await self.ask("photo", "refused")  # one may wait
        await self.go_on()
        await self.hears(late, "result")
        self._node.say(greeting(), joined())
        await self.run(stages=3)
        await self.hears(waiting, "result")
        await self.ask("photo")
        await self.run(stages=3)
        slow = await self.ask("photo")
        await self.run(stages=2)
        await self.run(took_us=ms(700))
        await self.hears(slow, "result")
        unlucky = await self.ask("photo")
        await self.run()
        await self.fail()
        await self.fail()
        await self.go_on()
        await self.fail()
        await self.hears(unlucky, "result")
        regretted = await self.ask("photo")
        await self.run()
        await self.task()
        self._door.say(wire.GatewayNote(cancel=regretted))
        await self.hears(regretted, "result")
        await self.ask("no-such-application", "refused")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return asyncio.run(_told(tmp_path_factory.mktemp("story")))


async def _told(folder: Path) -> Told:
    async with (
        running_controller(journal=str(folder), policy="esg", max_waiting=1) as controller,
        invoker(controller) as node,
        gateway(controller) as door,
        channel(controller.address) as to_controller,
    ):
        stub = wire_grpc.ControllerStub(to_controller)
        stages, drop = [model.Stage(function="resize")], model.LATE_REQUESTS_DROP
        await stub.PutApplication(
            wire.PutApplicationRequest(name="rush", stages=stages, late_requests=drop)
        )
        story = Story(controller, door, node)
        await story.tell()
        (status,) = [s async for s in stub.WatchMesh(wire.WatchMeshRequest())]
        metrics = CollectorRegistry()
        metrics.register(controller.live.metrics)
        page = CollectorRegistry()
        page.register(_Kept(list(metrics.collect())))
        ends = {note.request_id: note for kind in ("result", "refused") for note in door.of(kind)}
        return Told(folder, status_of(status), page, ends, story.asked)


class _Kept:
    """A metrics page as it was."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> Iterator[Any]:
        yield from self._families


@pytest.fixture(scope="module")
def by_top(told: Told) -> dict[str, Served]:
    return {known.application: served_of(known) for known in told.status.applications}


def test_the_story_has_every_outcome(by_top: dict[str, Served]) -> None:
    for name, served in by_top.items():
        assert served.document() == {
            **EXPECTED[name].document(),
            "cost_usd": served.document()["cost_usd"],
            "cost_usd_per_1k_requests": served.cost_usd_per_1k,
        }
    assert (by_top["photo"].due, by_top["photo"].hit_rate) == (5, 0.4)
    assert by_top["photo"].cost_pusd > 0
    assert (by_top["rush"].hit_rate, by_top["rush"].cost_usd_per_1k) == (0, 0)


def test_esg_top_shows_what_the_controller_counted(told: Told, by_top: dict[str, Served]) -> None:
    rows = {row["application"]: row for row in Look(told.status, None).document()["applications"]}
    for name, served in by_top.items():
        assert rows[name] == rows[name] | served.document()


def test_a_replay_of_the_journal_counts_the_same(told: Told, by_top: dict[str, Served]) -> None:
    report = replay_strictly(told.journal, SMALL).report
    unknown = report.applications.pop("no-such-application")
    assert unknown.served == Served(invalid=1)
    assert {name: one.served for name, one in report.applications.items()} == by_top
    summary, total = report.summary(), Served.total(by_top.values())
    assert summary == summary | total.document()
    assert summary["hit_rate_by_application"]["photo"] == by_top["photo"].hit_rate
    (photo,) = [known for known in told.status.applications if known.application == "photo"]
    latency_ms = summary["latency_ms"]["by_application"]["photo"]
    assert (latency_ms["p50"], latency_ms["p99"]) == (photo.latency_ms_p50, photo.latency_ms_p99)


async def test_loadgen_counts_the_same_of_what_it_heard(
    told: Told, by_top: dict[str, Served]
) -> None:
    outcome = LoadOutcome()
    arrivals = [Arrival(0, application) for application in told.asked.values()]
    await send(_Heard(told), arrivals, LoadSpec(payload=lambda _: b"", prefix="r"), outcome.add)
    assert outcome.by_application.pop("no-such-application").served == Served(invalid=1)
    assert {name: of.served for name, of in outcome.by_application.items()} == by_top
    assert outcome.document()["slo_hit_rate"] == Served.total(by_top.values()).hit_rate


class _Heard:
    """A stream whose answers are known already."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def submit(
        self, application: str, payload: bytes, *, slo_ms: float | None, request_id: str | None
    ) -> asyncio.Future[Result]:
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        note = self._told.notes[str(request_id)]
        if note.WhichOneof("note") == "result":
            answer.set_result(result_of(note.result))
        else:
            answer.set_exception(error_of(note.refused.code, note.refused.message))
        return answer


def test_grafana_and_the_alerts_divide_the_same_counters(
    told: Told, by_top: dict[str, Served]
) -> None:
    hit_rate, cost, alert = _shown("SLO hit rate"), _shown("Cost per thousand requests"), _alert()
    for name, served in by_top.items():
        assert _value(hit_rate, told, name) == served.hit_rate
        assert _value(alert, told, name) == served.hit_rate
        assert _value(cost, told, name) == pytest.approx(served.cost_usd_per_1k)


def _shown(title: str) -> str:
    dashboard = json.loads((ROOT / "deploy/grafana/dashboards/esg.json").read_text("utf-8"))
    (panel,) = [panel for panel in dashboard["panels"] if panel["title"] == title]
    return str(panel["targets"][0]["expr"])


def _alert() -> str:
    alerts = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8"))
    rules = {rule["alert"]: rule["expr"] for group in alerts["groups"] for rule in group["rules"]}
    return " ".join(rules["DeadlinesMissed"].split())


def _value(expression: str, told: Told, application: str) -> float:
    """A quotient of rates, over a span that has the whole story."""
    quotient = QUOTIENT.fullmatch(expression)
    assert quotient, expression
    factor, *counters = quotient.groups()
    part, whole = (_counted(counter, told, application) for counter in counters)
    return int(factor or 1) * part / whole


def _counted(counter: str, told: Told, application: str) -> float:
    rate = RATE.fullmatch(counter)
    assert rate, counter
    value = told.metrics.get_sample_value(rate[1], {"application": application})
    assert value is not None
    return value
