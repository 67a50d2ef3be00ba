"""The audit log: who changed what, and who was refused."""

# attack: G3

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from esg.errors import Rejected
from esg.gateway.access.audit import IN_ALL, PER_ORIGIN, AuditLog
from esg.gateway.metrics import RequestMetrics
from esg.protos import gateway_v1_pb2 as public
from esg.protos import model_v1_pb2 as model
from esg.runtime.logs import audit_logger
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController, application
from tests.support.token_clients import Clients, OpenStream, refusal, submission
from tests.support.waiting import until

DENIED = "PERMISSION_DENIED"
STAGES = [model.Stage(name="a", function="a")]


class Audit:
    """A gateway with tokens, and its audit log."""

    def __init__(self, clients: Clients, file: Path) -> None:
        self.clients = clients
        self.file = file

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text("utf-8").splitlines()]

    def told(self) -> list[tuple[str, str, str, str]]:
        """Of calls: who, which, about what, and what came of it."""
        return [
            (line["client"], line["method"], line["object"], line["outcome"])
            for line in self.lines()
            if line["method"] != "tokens"
        ]


@pytest.fixture
async def audit(
    gateways: Gateways, controller: ScriptedController, tmp_path: Path
) -> AsyncIterator[Audit]:
    clients, file = Clients(tmp_path / "tokens.toml"), tmp_path / "audit.log"
    clients.allow("alice", requests_per_s=0.001, burst=1)
    clients.allow("root", operator=True)
    controller.applications[KNOWN] = application(KNOWN)
    clients.address = await gateways.start(tokens=str(clients.file), audit_log=str(file))
    yield Audit(clients, file)
    await clients.close()


async def test_changes_are_written_down_with_who_made_them(audit: Audit) -> None:
    root = await audit.clients.stub("root")
    alice = await audit.clients.stub("alice")
    mine = public.RegisterApplicationRequest(name="mine", stages=STAGES)
    await alice.RegisterApplication(mine)
    await alice.UpdateApplication(public.UpdateApplicationRequest(application=mine))
    await refusal(alice.DeleteApplication(public.DeleteApplicationRequest(name=KNOWN)))
    await root.DeleteApplication(public.DeleteApplicationRequest(name=KNOWN))
    await alice.ListApplications(public.ListApplicationsRequest())
    await refusal(alice.ReloadFunction(public.ReloadFunctionRequest(function="first")))
    await root.ReloadFunction(public.ReloadFunctionRequest(function="first"))
    assert audit.told() == [
        ("alice", "RegisterApplication", "mine", "OK"),
        ("alice", "UpdateApplication", "mine", "OK"),
        ("alice", "DeleteApplication", KNOWN, DENIED),
        ("root", "DeleteApplication", KNOWN, "OK"),
        ("alice", "ReloadFunction", "first", DENIED),
        ("root", "ReloadFunction", "first", "OK"),
    ]
    line = audit.lines()[-1]
    assert line["audit"] is True
    assert line["peer"].startswith("ipv4:127.0.0.1:")
    assert line["at"].endswith("+00:00")
    assert audit.file.stat().st_mode & 0o077 == 0


async def test_cancellations_are_written_down(audit: Audit, controller: ScriptedController) -> None:
    root = await audit.clients.stub("root")
    waiting = root.Submit(submission("r1"))
    await controller.takes_in("r1")
    cancelling = root.Cancel(public.CancelRequest(request_id="r1"))
    await controller.hears("cancel")
    controller.end("r1", model.OUTCOME_CANCELLED)
    assert (await cancelling).cancelled
    await waiting
    assert audit.told() == [("root", "Cancel", "r1", "OK")]


async def test_refusals_are_written_down_without_the_token(
    audit: Audit, controller: ScriptedController
) -> None:
    for token in ("esg_a-secret-that-nobody-knows", ""):
        nobody = await audit.clients.stub(token)
        await refusal(nobody.ListApplications(public.ListApplicationsRequest()))
    alice = await audit.clients.stub("alice")
    stream = OpenStream(alice)
    first = asyncio.create_task(stream.submit("r1"))  # her one request
    await controller.hears("submission")
    await refusal(alice.Submit(submission("r2")))
    controller.accept("alice~r1")
    await controller.finish("alice~r1", second=b"y")
    await first
    await stream.submit("r3")
    stream.end()
    assert audit.told() == [
        ("", "ListApplications", "", "UNAUTHENTICATED"),
        ("", "ListApplications", "", "UNAUTHENTICATED"),
        ("alice", "Submit", "r2", "RESOURCE_EXHAUSTED"),
        ("alice", "SubmitMany", "r3", "RESOURCE_EXHAUSTED"),
    ]
    assert "secret" not in audit.file.read_text("utf-8")


async def test_the_file_with_the_tokens_is_read_again(audit: Audit) -> None:
    root = await audit.clients.stub("root")
    audit.clients.allow("bob")
    await root.ListApplications(public.ListApplicationsRequest())
    audit.clients.file.write_text("no TOML at all")
    await root.ListApplications(public.ListApplicationsRequest())
    assert [line["outcome"] for line in audit.lines()] == ["read", "read", "not read"]


class Written(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.fields.append(record.about)  # type: ignore[attr-defined]


async def test_flood_of_refusals_does_not_fill_the_log_and_is_counted() -> None:
    logger, written = logging.Logger("test"), Written()
    logger.addHandler(written)
    metrics = RequestMetrics(lambda: 0)
    log = AuditLog(logger, metrics.refused, clock_s=lambda: 0.0)
    registry = CollectorRegistry()
    registry.register(metrics)
    denied = grpc.StatusCode.PERMISSION_DENIED
    for _ in range(1000):
        log.ended("eve", "ipv4:10.0.0.7:1", "DeleteApplication", "photo", denied)
    log.ended("bob", "ipv4:10.0.0.8:1", "DeleteApplication", "photo", denied)
    assert [line["client"] for line in written.fields] == ["eve"] * PER_ORIGIN + ["bob"]
    for number in range(1000):
        log.ended("", f"ipv4:10.0.{number // 250}.{number % 250}:1", "Submit", "", denied)
    assert len(written.fields) == IN_ALL
    log.close()
    assert written.fields[-1] == {"audit": True, "held_back": {DENIED: 2001 - IN_ALL}}
    counted = {"reason": "permission_denied"}
    assert registry.get_sample_value("esg_gateway_refusals_total", counted) == 2001


def test_audit_log_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"audit_log: .* cannot be written: "):
        audit_logger("gateway", str(tmp_path / "none" / "audit.log"))


async def test_without_a_file_it_is_json_in_the_services_log(
    gateways: Gateways, controller: ScriptedController, capfd: pytest.CaptureFixture[str]
) -> None:
    clients = Clients(Path("unused"))
    clients.address = await gateways.start()
    try:
        anyone = await clients.stub("")
        await anyone.RegisterApplication(
            public.RegisterApplicationRequest(name="mine", stages=STAGES)
        )
    finally:
        await clients.close()
    said = ""

    def heard() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "RegisterApplication" in said

    await until(heard)
    (line,) = [json.loads(line) for line in said.splitlines() if "RegisterApplication" in line]
    assert (line["audit"], line["client"], line["outcome"]) == (True, "127.0.0.1", "OK")
