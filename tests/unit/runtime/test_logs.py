import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from esg.errors import Rejected
from esg.runtime.logs import about, start_logging

log = logging.getLogger("tests.happenings")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()  # or the first call would close what pytest needs
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_a_happening_is_one_json_object_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("gateway", "info", "json")
    log.info("refused", extra=about(request="r1", reason="two\nlines"))
    (line,) = lines(capsys)
    found: dict[str, Any] = json.loads(line)
    assert found.pop("at").endswith("+00:00")
    assert found == {
        "level": "info",
        "service": "gateway",
        "event": "refused",
        "request": "r1",
        "reason": "two\nlines",
    }


def test_people_get_a_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("gateway", "info", "text")
    log.warning("refused", extra=about(request="r1", code=3, reason="two\nlines"))
    (line,) = lines(capsys)
    assert line[12:] == " warning gateway: refused request=r1 code=3 reason='two\\nlines'"


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_failure_is_told_with_its_traceback(
    style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging("gateway", "info", style)
    try:
        raise ValueError("so it goes")
    except ValueError:
        log.exception("failed")
    assert "ValueError: so it goes" in "\n".join(lines(capsys))


def test_log_records_below_the_level_are_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("gateway", "warning", "json")
    log.info("nothing of interest")
    log.error("something")
    assert len(lines(capsys)) == 1


def test_unknown_levels_and_formats_are_refused() -> None:
    with pytest.raises(Rejected, match="log_level: unknown level 'loud'; known: debug, info"):
        start_logging("gateway", "loud", "json")
    with pytest.raises(Rejected, match="log_format: unknown format 'xml'; known: json, text"):
        start_logging("gateway", "info", "xml")
