"""What Prometheus learns of a gateway's requests."""

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from esg.core.messages.outcome import Outcome
from esg.gateway.metrics import RequestMetrics
from esg.gateway.request_table import RequestTable
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController, application
from tests.support.waiting import until


def test_a_request_is_counted_when_it_has_ended() -> None:
    book, _, registry = counted()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    book.submit(wire.Submission(request_id="r1", content_hash=b"1"))
    book.hear(wire.ControllerNote(request_id="r1", accepted=wire.Accepted(application="photo")))
    assert value("esg_gateway_under_way") == 1
    result = model.Result(
        application="photo", outcome=model.OUTCOME_DONE, slo_met=True, latency_us=120_000
    )
    book.hear(wire.ControllerNote(request_id="r1", result=result))
    book.hear(wire.ControllerNote(request_id="r1", result=result))
    ended = {"application": "photo", "outcome": "done", "in_time": "yes"}
    assert value("esg_gateway_requests_total", **ended) == 1
    assert value("esg_gateway_latency_seconds_sum", application="photo") == 0.12
    assert value("esg_gateway_latency_seconds_bucket", application="photo", le="0.1") == 0
    assert value("esg_gateway_latency_seconds_bucket", application="photo", le="0.2") == 1
    assert b"esg_gateway_latency_seconds_bucket" in generate_latest(registry)


def test_two_clients_who_call_their_applications_the_same_are_counted_apart() -> None:
    book, _, registry = counted()
    for owner in ("alice", "bob"):
        photo = f"{owner}~photo"
        book.submit(wire.Submission(request_id=f"{owner}~r1", content_hash=b"1", owner=owner))
        accepted = wire.Accepted(application=photo)
        book.hear(wire.ControllerNote(request_id=f"{owner}~r1", accepted=accepted))
        result = model.Result(application=photo, outcome=model.OUTCOME_DONE)
        book.hear(wire.ControllerNote(request_id=f"{owner}~r1", result=result))
    for name in ("alice~photo", "bob~photo"):
        of_one = {"application": name}
        assert registry.get_sample_value("esg_gateway_latency_seconds_count", of_one) == 1


def test_numbers_of_an_application_go_when_it_was_missed_twice() -> None:
    _, metrics, registry = counted()
    for name in ("photo", "trial"):
        for outcome in (model.OUTCOME_DONE, model.OUTCOME_FAILED):
            metrics.ended(model.Result(application=name, outcome=outcome))
    metrics.forget_gone({"photo"})
    assert b'"trial"' in generate_latest(registry)
    metrics.forget_gone({"photo"})
    assert b'"trial"' not in generate_latest(registry)
    assert b'"photo"' in generate_latest(registry)
    metrics.ended(model.Result(application="trial", outcome=model.OUTCOME_DONE))
    assert b'"trial"' in generate_latest(registry)


def test_numbers_of_an_application_are_there_before_its_first_request() -> None:
    _, metrics, registry = counted()
    metrics.begin("photo")
    for outcome in Outcome:
        never = {"application": "photo", "outcome": outcome, "in_time": "no"}
        assert registry.get_sample_value("esg_gateway_requests_total", never) == 0
    assert (
        registry.get_sample_value("esg_gateway_latency_seconds_count", {"application": "photo"})
        == 0
    )
    metrics.ended(model.Result(application="photo", outcome=model.OUTCOME_FAILED))
    metrics.begin("photo")
    failed = {"application": "photo", "outcome": "failed", "in_time": "no"}
    assert registry.get_sample_value("esg_gateway_requests_total", failed) == 1


def test_applications_of_requests_under_way_are_needed() -> None:
    book, _, _ = counted()
    book.submit(wire.Submission(request_id="alice~r1", content_hash=b"1", owner="alice"))
    accepted = wire.Accepted(application="alice~photo")
    book.hear(wire.ControllerNote(request_id="alice~r1", accepted=accepted))
    assert "alice~photo" in book.applications()


async def test_a_gateway_forgets_applications_that_were_deleted_elsewhere(
    gateways: Gateways, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[RequestMetrics] = []

    def making(under_way: Callable[[], int]) -> RequestMetrics:
        made.append(RequestMetrics(under_way))
        return made[-1]

    monkeypatch.setattr("esg.gateway.__main__.RequestMetrics", making)
    monkeypatch.setattr("esg.gateway.metrics.FORGET_S", 0.001)
    controller.applications["trial"] = application("trial")
    await gateways.start()
    (metrics,) = made
    registry = CollectorRegistry()
    registry.register(metrics)
    await until(lambda: KNOWN.encode() in generate_latest(registry))  # nobody has asked for it yet
    for name in (KNOWN, "trial"):
        metrics.ended(model.Result(application=name, outcome=model.OUTCOME_DONE))
    assert b'"trial"' in generate_latest(registry)
    del controller.applications["trial"]
    await until(lambda: b'"trial"' not in generate_latest(registry))
    assert KNOWN.encode() in generate_latest(registry)


def counted() -> tuple[RequestTable, RequestMetrics, CollectorRegistry]:
    """A gateway's requests, and what Prometheus reads of them."""
    metrics = RequestMetrics(lambda: len(book))
    book = RequestTable(10, lambda *_: None, lambda *_: None, metrics.ended)
    book.link_made(lambda _: None)
    registry = CollectorRegistry()
    registry.register(metrics)
    return book, metrics, registry
