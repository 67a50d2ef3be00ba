"""Which silence ends a process."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from esg.local import liveness
from esg.local.liveness import watch
from esg.local.process import Ask, Process, ProcessState


class ScriptedProcess:
    """Answers as the script says, and is stopped after it."""

    def __init__(self, answers: Iterable[bool | None]) -> None:
        self._answers = list(answers)
        self.state = ProcessState.READY
        self.silent = False
        self.killed = False

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Ask]:
        async def ask(timeout_s: float) -> bool | None:
            if len(self._answers) == 1:
                self.state = ProcessState.STOPPING
            return self._answers.pop(0)

        yield ask

    def kill(self, *, wanted: bool) -> None:
        assert wanted
        self.killed = True
        self.state = ProcessState.ENDED


@pytest.mark.parametrize(
    ("answers", "killed"),
    [
        ([True, True, True], False),
        ([True, False, False, False, True], True),
        ([False, False, True, False, False, True], False),
        ([False, None, False, None, False, True], True),
        ([None, None, None, None, True], False),
        ([False, False, False], False),  # it is being stopped when the last one comes
    ],
)
async def test_several_questions_in_a_row_without_an_answer_end_a_process(
    answers: list[bool | None], killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "PROBE_EVERY_S", 0)
    process = ScriptedProcess(answers)
    await watch(cast(Process, cast(Any, process)), process.line())
    assert (process.killed, process.silent) == (killed, killed)
