"""A gateway's questions about one request: what was asked, answered, and is asked again."""

from esg.core.sessions.inquiry import Inquiry, RefusalScope


def submitted() -> Inquiry[str]:
    return Inquiry("submission", submitted=True)


def followed() -> Inquiry[str]:
    return Inquiry("follow", submitted=False)


def test_questions_are_answered_in_the_order_in_which_they_were_asked() -> None:
    inquiry = followed()
    inquiry.submission = inquiry.ask("submission")
    assert inquiry.accepted() == "follow"
    assert inquiry.accepted() == "submission"
    assert inquiry.accepted() is None


def test_whoever_asks_after_all_have_left_is_there_again() -> None:
    inquiry = submitted()
    inquiry.accepted()
    inquiry.left = True
    inquiry.watching = inquiry.ask("follow")
    assert not inquiry.left


def test_a_submission_that_asks_for_more_is_about_the_request_if_it_is_refused() -> None:
    inquiry = submitted()
    inquiry.accepted()
    inquiry.submit_again("to be fetched later")
    assert inquiry.again("follow") == ("to be fetched later",)
    assert inquiry.refused() == ("to be fetched later", RefusalScope.REQUEST)


def test_unanswered_questions_are_asked_again_in_order_on_a_new_link() -> None:
    inquiry = submitted()
    inquiry.watching = inquiry.ask("watch")
    for _ in range(2):
        assert inquiry.again("follow") == ("submission", "watch")
    inquiry.accepted()
    assert inquiry.again("follow") == ("watch",)
    assert inquiry.watching == "watch"


def test_request_without_open_questions_is_followed_on_a_new_link_until_answered() -> None:
    inquiry = submitted()
    inquiry.accepted()
    assert inquiry.again("follow") == ("follow",)
    assert inquiry.watching == "follow"
    assert inquiry.again("another follow") == ("follow",)


def test_ended_request_is_not_asked_about_on_a_new_link() -> None:
    inquiry = submitted()
    inquiry.accepted()
    assert inquiry.again(None) == ()


def test_a_refusal_before_a_submission_is_about_that_question_alone() -> None:
    inquiry = followed()
    inquiry.submission = inquiry.ask("submission")
    assert inquiry.refused() == ("follow", RefusalScope.QUESTION)
    assert (inquiry.origin, inquiry.watching) == ("submission", None)
    assert inquiry.refused() == ("submission", RefusalScope.REQUEST)


def test_a_submission_that_is_refused_for_a_known_request_concerns_only_itself() -> None:
    inquiry = followed()
    inquiry.accepted()
    inquiry.submission = inquiry.ask("submission")
    assert inquiry.refused() == ("submission", RefusalScope.SUBMISSION)
    assert inquiry.submission is None


def test_a_refusal_without_a_question_is_about_the_request() -> None:
    inquiry = submitted()
    inquiry.accepted()
    assert inquiry.refused() == ("submission", RefusalScope.REQUEST)
