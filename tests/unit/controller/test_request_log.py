"""The memory of requests: bounded in number and in time."""

import pytest

from esg.controller.requests import request_log
from esg.controller.requests.request_log import AnsweredRequest, RequestLog, RequestRecord
from esg.core.sessions.interest import wanted_memo
from esg.units import seconds

RECORD = RequestRecord(application="thumb", content_hash=b"1")


def answered(
    name: str, at_us: int, *, later: bool = False, output: bytes | None = None
) -> AnsweredRequest:
    return AnsweredRequest(
        application="thumb",
        content_hash=b"",
        fetched_later=later,
        answered_us=at_us,
        result=name.encode(),
        outputs={} if output is None else {"label": output},
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


# ---- outputs that were brought along


@pytest.fixture
def hundred(monkeypatch: pytest.MonkeyPatch) -> RequestLog:
    """One that holds a hundred bytes of outputs."""
    monkeypatch.setattr(request_log, "MOST_HELD_BYTES", 100)
    return RequestLog(remembered=100, fetched_later_us=seconds(1000), waited_for_us=seconds(1000))


def held(requests: RequestLog) -> list[str]:
    """Those that are answered and have their outputs."""
    return [name for name, answer in requests.answered() if answer.outputs]


def test_the_oldest_answers_lose_their_outputs_when_there_are_too_many(hundred: RequestLog) -> None:
    for number in range(5):
        hundred.remember(
            f"r{number}", answered(f"r{number}", seconds(10 * number), output=bytes(30))
        )
    assert held(hundred) == ["r2", "r3", "r4"]
    assert hundred.held_bytes == 90
    assert not hundred.holds_too_much
    assert len(hundred.answered()) == 5


def test_an_answer_of_just_now_keeps_its_outputs_and_no_more_are_brought(
    hundred: RequestLog,
) -> None:
    for number in range(4):
        hundred.remember(
            f"r{number}", answered(f"r{number}", seconds(1) + number, output=bytes(30))
        )
    assert hundred.holds_too_much
    assert len(held(hundred)) == 4
    hundred.remember("r4", answered("r4", seconds(4)))
    assert held(hundred) == ["r1", "r2", "r3"]
    assert not hundred.holds_too_much


def test_what_is_to_be_fetched_later_never_loses_its_outputs(hundred: RequestLog) -> None:
    for number in range(4):
        hundred.remember(f"r{number}", answered(f"r{number}", 0, output=bytes(30)))
        hundred.want(f"r{number}", wanted_memo("g1", fetched_later=True))
    hundred.remember("r4", answered("r4", seconds(100)))
    assert held(hundred) == ["r0", "r1", "r2", "r3"]
    assert hundred.holds_too_much


def test_bytes_are_held_for_as_long_as_their_request_is_known(hundred: RequestLog) -> None:
    hundred.begin("r1", RECORD)
    hundred.bring("r1", "left", bytes(10))
    hundred.bring("r1", "right", bytes(20))
    hundred.bring("nobody", "left", bytes(99))
    assert hundred.held_bytes == 30
    hundred.bring("r1", "left", bytes(15))  # it was done again
    hundred.bring("r1", "right", None)  # and now its output is in Redis
    assert hundred.held_bytes == 15
    hundred.remember("r1", answered("r1", 0, output=bytes(15)))
    hundred.remember("r1", answered("r1", 0, output=bytes(16)))
    assert hundred.held_bytes == 16
    assert hundred.find("r1", seconds(2000)) is None
    assert hundred.held_bytes == 0
