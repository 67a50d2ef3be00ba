"""Sentences for people and for pipes."""

import io

from rich.console import Console

from esg.console.terminal import print_line

PATH = "/a/rather/deep/directory/with/a/file/that/has/a/long/name.of-some-stage.png"
TEXT = f"{PATH}: done in 420.7 ms, SLO of 526.0 ms kept"


def printed(text: str, *, terminal: bool) -> list[str]:
    screen = Console(file=io.StringIO(), width=40, force_terminal=terminal, color_system=None)
    with screen.capture() as captured:
        print_line(screen, text)
    return captured.get().splitlines()


def test_a_terminal_breaks_lines_between_words_and_no_path() -> None:
    told = printed(f"{TEXT}\n", terminal=True)
    assert told == [f"{PATH}:", "done in 420.7 ms, SLO of 526.0 ms kept", ""]


def test_sentence_in_a_pipe_is_one_line() -> None:
    assert printed(TEXT, terminal=False) == [TEXT]
