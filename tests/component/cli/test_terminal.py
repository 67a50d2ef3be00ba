"""Sentences for people and for pipes."""

import io

import pytest
from rich.console import Console

from esg.cli.bringup.status import print_processes
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


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_addresses_of_a_mesh_are_whole_on_a_terminal_of_any_width(width: int) -> None:
    addresses = {
        "redis": "unix:///tmp/esg-1000/a-rather-long-name/redis.sock",
        "gateway": "127.0.0.1:50051",
    }
    figures = {"state": "serving", "uptime_s": 12.3, "cpu_s": 4.5, "memory_mb": 67.8}
    rows = [
        {"name": name, "pid": 4_194_304, "address": address, **figures}
        for name, address in addresses.items()
    ]
    screen = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with screen.capture() as captured:
        print_processes(screen, rows)
    shown = captured.get()
    assert all(address in shown for address in addresses.values())
    table = shown.split("\n\n")[0]
    assert all(row["name"] in table and row["state"] in table for row in rows)
    assert all(len(line) <= width for line in table.splitlines())
