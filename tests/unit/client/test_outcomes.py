"""A result as a value and, for those who want it so, as an exception."""

import pickle
from dataclasses import replace

import pytest

from esg.client import (
    ClientError,
    Outcome,
    RequestCancelled,
    RequestDropped,
    RequestFailed,
    Result,
)

DONE = Result(
    request_id="r1",
    application="photo",
    outcome=Outcome.DONE,
    reason="",
    slo_met=False,
    slo_ms=100.0,
    latency_ms=120.0,
    cost_usd=0.1,
    stages=(),
    outputs={"last": b"x"},
)
ENDINGS = {
    Outcome.FAILED: (RequestFailed, "request r1 failed: no such picture"),
    Outcome.DROPPED: (RequestDropped, "request r1 was dropped: no such picture"),
    Outcome.INVALID: (RequestFailed, "request r1 had an input that is not valid: no such picture"),
    Outcome.CANCELLED: (RequestCancelled, "request r1 was cancelled: no such picture"),
}


def test_a_request_that_is_done_is_ok_also_when_it_is_late() -> None:
    assert DONE.ok
    assert DONE.raise_for_outcome().outputs == {"last": b"x"}


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome != Outcome.DONE])
def test_any_other_ending_is_raised_as_its_own_kind(outcome: Outcome) -> None:
    kind, words = ENDINGS[outcome]
    ended = replace(DONE, outcome=outcome, reason="no such picture")
    assert not ended.ok
    with pytest.raises(RequestFailed) as raised:
        ended.raise_for_outcome()
    assert (type(raised.value), str(raised.value)) == (kind, words)
    assert raised.value.result is ended
    assert isinstance(raised.value, ClientError)


def test_an_ending_without_a_reason_is_said_without_one() -> None:
    ended = replace(DONE, outcome=Outcome.CANCELLED)
    assert str(RequestCancelled(ended)) == "request r1 was cancelled"


def test_an_ending_survives_the_way_to_another_process() -> None:
    raised = RequestFailed(replace(DONE, outcome=Outcome.FAILED, reason="broken"))
    back = pickle.loads(pickle.dumps(raised))
    assert (str(back), back.result) == (str(raised), raised.result)
