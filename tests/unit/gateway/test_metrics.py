"""What Prometheus learns of a gateway's requests."""

from prometheus_client import CollectorRegistry, generate_latest

from gateway.book import Book
from gateway.metrics import RequestMetrics
from protos import controller_v1_pb2 as wire
from protos import model_v1_pb2 as model


def test_a_request_is_counted_when_it_has_ended() -> None:
    metrics = RequestMetrics(lambda: len(book))
    book = Book(10, lambda *_: None, metrics.ended)
    book.link_made(lambda _: None)
    registry = CollectorRegistry()
    registry.register(metrics)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    book.submit(wire.Submission(request_id="r1", fingerprint=b"1"))
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
