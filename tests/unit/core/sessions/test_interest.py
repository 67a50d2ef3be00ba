"""Who wants a request: whose leaving cancels it."""

from esg.core.sessions.interest import Interest, wanted_memo

WAITS = wanted_memo("any", fetched_later=False)
LATER = wanted_memo("any", fetched_later=True)


def asked(*gateways: str) -> Interest:
    interest = Interest()
    for gateway in gateways:
        interest.ask("r1", gateway, WAITS)
    return interest


def test_the_last_who_leaves_cancels() -> None:
    interest = asked("a", "b", "a")
    assert not interest.leave("r1", "a")
    assert interest.leave("r1", "b")


def test_leaving_twice_or_what_is_unknown_is_no_news() -> None:
    interest = asked("a")
    assert not interest.leave("r1", "b")
    assert not interest.leave("r2", "a")
    assert interest.leave("r1", "a")
    assert not interest.leave("r1", "a")


def test_what_is_kept_is_cancelled_only_if_all_take_that_back() -> None:
    interest = asked("a")
    interest.ask("r1", "b", LATER)
    assert not interest.leave("r1", "a")
    assert not interest.keep_not("r1", "a")
    assert interest.keep_not("r1", "b")


def test_nobody_can_take_back_what_the_journal_says_is_kept() -> None:
    interest = Interest()
    interest.recall("r1", ("a",), kept=True)
    assert not interest.leave("r1", "a")
    assert not interest.keep_not("r1", "a")


def test_whoever_the_journal_says_has_waited_has_to_leave() -> None:
    interest = Interest()
    interest.recall("r1", ("a", "b"), kept=False)
    assert not interest.leave("r1", "a")
    assert interest.leave("r1", "b")


def test_nobody_leaves_what_has_ended() -> None:
    interest = asked("a")
    interest.end("r1")
    assert not interest.leave("r1", "a")
