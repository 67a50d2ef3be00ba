"""What a gateway remembers of requests, and when it forgets them."""

from collections.abc import Sequence
from typing import Any

import pytest

from esg.errors import Rejected
from esg.gateway.request import TrackedRequest
from esg.gateway.request_table import RequestTable
from esg.names import payload_stage
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import AlreadyExists, NotFound, Unavailable, status

PAYLOAD = payload_stage(b"1")
OTHER_PAYLOAD = payload_stage(b"2")


class Told:
    """A book, what it says, and what it deletes."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.deleted: list[tuple[str, list[str]]] = []
        self.kept: list[tuple[str, list[str], float]] = []
        self.book = RequestTable(10, self._discard, self._keep)
        self.link()

    def link(self) -> None:
        self.said.clear()
        self.book.link_made(self._say)

    def submit(self, content_hash: bytes = b"1", *, later: bool = False) -> TrackedRequest:
        return self.book.submit(
            wire.Submission(request_id="r1", content_hash=content_hash, fetched_later=later)
        )

    def accept(self, *, repeated: bool = False) -> None:
        accepted = wire.Accepted(application="photo", repeated=repeated, content_hash=b"1")
        self._hear(accepted=accepted)

    def refuse(self, error: Exception) -> None:
        self._hear(refused=wire.Refused(code=status(error)[0].value[0], message=str(error)))

    def end(
        self, outcome: Any = model.OUTCOME_DONE, *, shared: bool = False, fetch_within_us: int = 0
    ) -> None:
        result = model.Result(outcome=outcome, output_stages=["last"])
        self._hear(result=result, shared=shared, fetch_within_us=fetch_within_us)

    def lose_payload(self) -> None:
        self._hear(payload_lost=True)

    def _hear(self, **note: Any) -> None:
        self.book.hear(wire.ControllerNote(request_id="r1", **note))

    def _say(self, note: wire.GatewayNote) -> None:
        kind = note.WhichOneof("note")
        assert kind is not None
        self.said.append((kind, note.submission.request_id or getattr(note, kind)))

    def _discard(self, request: str, stages: Sequence[str]) -> None:
        self.deleted.append((request, list(stages)))

    def _keep(self, request: str, stages: Sequence[str], left_s: float) -> None:
        self.kept.append((request, list(stages), round(left_s)))


@pytest.fixture
def told() -> Told:
    return Told()


def forgotten(told: Told) -> bool:
    """Neither a request nor a call is left."""
    return len(told.book) == 0 and told.book.idle.is_set()


async def test_delivered_results_are_deleted_with_the_payload(told: Told) -> None:
    request = told.submit()
    told.accept()
    told.end()
    assert (await request.history.end()).outcome == model.OUTCOME_DONE
    request.delivered = True
    told.book.leave(request)
    assert told.deleted == [("r1", [PAYLOAD, "last"])]
    assert forgotten(told)


async def test_a_result_is_shown_under_the_clients_names_and_what_was_received_stays_as_it_is(
    told: Told,
) -> None:
    submission = wire.Submission(request_id="alice~r1", content_hash=b"1", owner="alice")
    request = told.book.submit(submission)
    received = wire.ControllerNote(
        request_id="alice~r1",
        result=model.Result(request_id="alice~r1", application="alice~photo"),
    )
    told.book.hear(received)
    shown = await request.history.end()
    assert (shown.request_id, shown.application) == ("r1", "photo")
    assert (received.result.request_id, received.result.application) == ("alice~r1", "alice~photo")


async def test_undelivered_results_stay_for_a_repeat(told: Told) -> None:
    request = told.submit()
    told.accept()
    told.end()
    told.book.leave(request)
    assert told.deleted == [("r1", [PAYLOAD])]
    assert forgotten(told)


async def test_a_refused_request_is_forgotten_and_its_payload_left_to_expire(told: Told) -> None:
    request = told.submit()
    told.refuse(Rejected("no"))
    assert request.asked.submission is not None
    with pytest.raises(Rejected, match="no"):
        await request.asked.submission.accepted()
    told.book.leave(request)
    assert told.deleted == []  # another gateway's request may have been accepted with the same
    assert forgotten(told)


@pytest.mark.parametrize("repeated", [False, True])
async def test_the_answer_decides_about_a_request_that_nobody_waits_for(
    told: Told, repeated: bool
) -> None:
    told.book.leave(told.submit())
    assert told.said == [("submission", "r1")]
    told.accept(repeated=repeated)
    assert told.said[1:] == [("leave", "r1")]
    told.end(model.OUTCOME_CANCELLED)
    assert told.deleted == [("r1", [PAYLOAD, "last"])]
    assert forgotten(told)


async def test_an_answer_that_comes_late_is_not_taken_for_another_one(told: Told) -> None:
    told.book.leave(told.book.follow("r1"))
    request = told.submit()
    told.refuse(NotFound("unknown request"))  # the follow
    assert told.deleted == []
    told.accept()
    assert request.asked.submission is not None
    await request.asked.submission.accepted()
    told.end()
    request.delivered = True
    told.book.leave(request)
    assert forgotten(told)


async def test_watcher_before_the_submission_is_refused_and_one_after_it_is_not(
    told: Told,
) -> None:
    early = told.book.follow("r1")
    asked_early = early.asked.origin
    submitted = told.submit()
    told.refuse(NotFound("unknown request"))
    with pytest.raises(NotFound):
        await asked_early.accepted()
    told.book.leave(early)
    told.accept()
    late = told.book.follow("r1")
    await late.asked.origin.accepted()
    watching = told.book.watch(late)
    assert watching is not None
    assert told.said[-1] == ("follow", "r1")  # the first one was in vain
    told.accept()
    await watching.accepted()
    told.end()
    for request in (late, submitted):
        told.book.leave(request)
    assert forgotten(told)


async def test_a_submission_that_is_refused_twice_over_is_forgotten(told: Told) -> None:
    early, submitted = told.book.follow("r1"), told.submit()
    told.refuse(NotFound("unknown request"))
    told.refuse(NotFound("unknown application"))
    assert submitted.asked.submission is not None
    with pytest.raises(NotFound, match="unknown application"):
        await submitted.asked.submission.accepted()
    for request in (early, submitted):
        told.book.leave(request)
    assert forgotten(told)


async def test_watchers_share_a_question_and_wait_for_its_answer(told: Told) -> None:
    requests = [told.submit(), told.book.follow("r1"), told.book.follow("r1")]
    told.accept()
    first, second = told.book.watch(requests[1]), told.book.watch(requests[2])
    assert first is second
    assert first is not None
    assert told.said == [("submission", "r1"), ("follow", "r1")]
    told.accept()
    told.end()
    assert told.book.watch(requests[1]) is None
    for request in requests:
        told.book.leave(request)
    assert forgotten(told)


async def test_other_content_for_an_id_that_is_watched_takes_no_payload_away(
    told: Told,
) -> None:
    watcher = told.book.follow("r1")
    told.accept()
    other = told.submit(b"2")
    question = other.asked.submission
    told.book.leave(other)
    told.refuse(AlreadyExists("used for another request"))
    assert question is not None
    with pytest.raises(AlreadyExists):
        await question.accepted()
    assert told.deleted == []
    told.end()
    await watcher.history.end()
    told.book.leave(watcher)
    assert told.deleted == [("r1", [PAYLOAD])]
    assert forgotten(told)


async def test_ended_request_stays_until_a_repeat_of_it_is_answered(told: Told) -> None:
    watcher = told.book.follow("r1")
    told.accept()
    told.end()
    repeat = told.submit()
    told.book.leave(watcher)
    told.book.leave(repeat)
    told.link()
    assert told.said == [("submission", "r1")]  # it is asked again, although the end is known
    told.accept(repeated=True)
    told.end()
    assert told.deleted == [("r1", [PAYLOAD])]
    assert forgotten(told)


async def test_a_link_that_was_made_again_asks_one_question_per_request(told: Told) -> None:
    request = told.submit()
    told.accept()
    told.book.cancel(request)
    told.book.leave(request)
    told.book.link_lost()
    told.link()
    assert told.said == [("follow", "r1")]
    told.accept()
    assert told.said[1:] == [("cancel", "r1")]
    told.end(model.OUTCOME_CANCELLED)
    assert forgotten(told)


async def test_watcher_of_a_request_that_the_controller_forgot_follows_its_new_submission(
    told: Told,
) -> None:
    watcher = told.book.follow("r1")
    told.accept()
    told.link()
    submitted = told.submit()
    told.refuse(NotFound("unknown request"))  # it has started anew
    told.accept()
    told.end()
    for request in (watcher, submitted):
        assert (await request.history.end()).outcome == model.OUTCOME_DONE
        told.book.leave(request)
    assert forgotten(told)


async def test_request_table_without_a_controller_fails_waiters_and_keeps_running_requests(
    told: Told,
) -> None:
    waited_for = told.book.follow("r2")
    kept = told.submit()
    told.accept()
    kept.kept = True
    told.book.leave(kept)
    told.book.link_lost()
    told.book.give_up(Unavailable("away"))
    with pytest.raises(Unavailable):
        await waited_for.asked.origin.accepted()
    told.book.leave(waited_for)
    told.link()
    assert told.said == [("follow", "r1")]
    told.accept()
    told.end()
    assert told.deleted == [("r1", [PAYLOAD])]
    assert forgotten(told)


async def test_ended_request_is_delivered_although_the_controller_stays_away(
    told: Told,
) -> None:
    watcher = told.book.follow("r1")
    told.accept()
    told.end()
    repeat = told.submit()
    told.book.link_lost()
    told.book.give_up(Unavailable("away"))
    assert repeat.asked.submission is not None
    with pytest.raises(Unavailable):
        await repeat.asked.submission.accepted()
    assert (await watcher.history.end()).outcome == model.OUTCOME_DONE
    for request in (watcher, repeat):
        told.book.leave(request)
    assert forgotten(told)


async def test_waiter_for_a_request_whose_payload_is_lost_is_told_to_submit_it_again(
    told: Told,
) -> None:
    request = told.submit()
    told.accept()
    told.lose_payload()
    with pytest.raises(Unavailable, match="payload of request r1 was lost; submit it again"):
        await request.history.end()
    told.book.leave(request)
    assert forgotten(told)
    assert told.said == [("submission", "r1")]  # above all, it was not cancelled


async def test_a_request_that_nobody_could_bring_again_is_not_disturbed(told: Told) -> None:
    request = told.submit()
    told.accept()
    request.kept = True
    follower = told.book.follow("r1")
    told.lose_payload()
    told.end(model.OUTCOME_FAILED)
    for known in (request, follower):
        assert (await known.history.end()).outcome == model.OUTCOME_FAILED
        told.book.leave(known)
    assert forgotten(told)


# ---- several gateways (attack: F1)


async def test_outputs_that_others_may_come_for_stay_when_they_were_delivered(told: Told) -> None:
    request = told.submit()
    told.accept()
    told.end(shared=True)
    request.delivered = True
    told.book.leave(request)
    assert told.deleted == [("r1", [PAYLOAD])]
    assert forgotten(told)


async def test_outputs_that_are_fetched_later_expire_when_the_result_is_forgotten(
    told: Told,
) -> None:
    told.book.leave(told.submit(later=True))
    told.accept()
    told.end(shared=True, fetch_within_us=600_000_000)
    assert (told.deleted, told.kept) == ([("r1", [PAYLOAD])], [("r1", ["last"], 600)])
    assert forgotten(told)


async def test_of_a_request_that_failed_there_is_nothing_to_be_fetched_later(told: Told) -> None:
    told.book.leave(told.submit(later=True))
    told.accept()
    told.end(model.OUTCOME_FAILED, shared=True, fetch_within_us=600_000_000)
    assert (told.deleted, told.kept) == ([("r1", [PAYLOAD, "last"])], [])


async def test_a_call_that_comes_after_all_have_left_is_said_to_the_controller(told: Told) -> None:
    told.book.leave(told.submit())
    told.accept()
    request = told.submit()
    told.accept()
    told.book.leave(request)
    assert told.said == [
        ("submission", "r1"),
        ("leave", "r1"),
        ("follow", "r1"),
        ("leave", "r1"),
    ]


async def test_that_nobody_waits_is_said_again_on_another_link(told: Told) -> None:
    told.book.leave(told.submit())
    told.accept()
    told.link()
    assert told.said == [("follow", "r1")]
    told.accept()
    assert told.said == [("follow", "r1"), ("leave", "r1")]


async def test_what_is_waited_for_and_then_to_be_fetched_later_is_submitted_again(
    told: Told,
) -> None:
    waits = told.submit()
    told.accept()
    told.submit(later=True)
    told.submit(later=True)  # a repeat of that asks for no more
    assert told.said == [("submission", "r1")] * 2
    told.accept()
    waits.kept = True
    for _ in range(3):
        told.book.leave(waits)
    assert told.said == [("submission", "r1")] * 2
    told.end()
    assert told.deleted == [("r1", [PAYLOAD])]


async def test_what_cannot_be_kept_is_taken_back_and_may_be_asked_for_again(told: Told) -> None:
    request = told.submit(later=True)
    told.accept()
    told.book.keep_not(request)
    assert told.said == [("submission", "r1"), ("keep_not", "r1")]
    told.submit(later=True)
    assert told.said[2:] == [("submission", "r1")]
