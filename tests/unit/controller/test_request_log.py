"""The memory of requests: bounded in number and in time."""

from esg.controller.request_log import AnsweredRequest, RequestLog, RequestRecord


def answered(name: str, at_us: int, *, later: bool) -> AnsweredRequest:
    return AnsweredRequest(
        application="thumb",
        content_hash=b"",
        fetched_later=later,
        answered_us=at_us,
        result=name.encode(),
    )


def test_memory_of_answered_requests_is_bounded_in_number_and_time() -> None:
    requests = RequestLog(remembered=2, fetched_later_us=100, waited_for_us=10)
    for number in range(4):
        for name, later in ((f"r{number}", True), (f"w{number}", False)):
            requests.remember(name, answered(name, number, later=later))

    def known(kind: str, now_us: int = 3) -> list[bool]:
        return [requests.find(f"{kind}{number}", now_us) is not None for number in range(4)]

    assert known("r") == known("w") == [False, False, True, True]
    assert known("w", now_us=12) == [False, False, True, True]
    assert known("w", now_us=13) == [False, False, False, True]  # though nothing else was answered
    assert known("w", now_us=14) == [False] * 4
    assert known("r", now_us=50) == [False, False, True, True]
    found = requests.find("r3", 50)
    assert isinstance(found, AnsweredRequest)
    assert found.result == b"r3"


def test_a_request_that_is_answered_is_not_under_way_any_more() -> None:
    requests = RequestLog(remembered=2, fetched_later_us=100, waited_for_us=10)
    record = RequestRecord(application="thumb", content_hash=b"1")
    requests.under_way["r1"] = record
    assert requests.find("r1", 0) is record
    requests.remember("r1", answered("r1", 5, later=False))
    assert not requests.under_way
    assert isinstance(requests.find("r1", 5), AnsweredRequest)
