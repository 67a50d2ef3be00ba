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


def test_answers_of_one_client_do_not_push_out_anothers() -> None:
    # attack: F2
    requests = RequestLog(remembered=3, fetched_later_us=1000, waited_for_us=1000)
    for number, name in enumerate(["bob~r1", "alice~r1", "alice~r2", "alice~r3", "alice~r4"]):
        requests.remember(name, answered(name, number, later=False))
    assert [name for name, _ in requests.answered()] == ["bob~r1", "alice~r3", "alice~r4"]
    assert requests.find("bob~r1", 1001) is None  # but time passes for all


def test_requests_of_a_client_are_counted_while_they_are_under_way() -> None:
    # attack: F2
    requests = RequestLog(remembered=3, fetched_later_us=1000, waited_for_us=1000)
    record = RequestRecord(application="thumb", content_hash=b"1")
    for name in ("alice~r1", "alice~r2", "alice~r1", "r3"):
        requests.begin(name, record)
    assert [requests.under_way_of(owner) for owner in ("alice", "", "bob")] == [2, 1, 0]
    for _ in range(2):
        requests.remember("alice~r1", answered("alice~r1", 5, later=False))
    assert requests.under_way_of("alice") == 1


def test_a_request_that_is_answered_is_not_under_way_any_more() -> None:
    requests = RequestLog(remembered=2, fetched_later_us=100, waited_for_us=10)
    record = RequestRecord(application="thumb", content_hash=b"1")
    requests.begin("r1", record)
    assert requests.find("r1", 0) is record
    requests.remember("r1", answered("r1", 5, later=False))
    assert not requests.under_way
    assert isinstance(requests.find("r1", 5), AnsweredRequest)
