"""Progress where nobody looks at a terminal."""

import pytest

from esg.console import progress
from esg.console.progress import ProgressLines


def test_lines_of_progress_are_few_and_none_in_the_first_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 10.0)
    now_s = [100.0]
    lines = ProgressLines(lambda: now_s[0])
    said: list[int] = []
    for second in range(2000):
        now_s[0] = 100.0 + second
        lines.tell(lambda passed_s: f"{passed_s:.0f} s")
        if capsys.readouterr().err:
            said.append(second)
    assert said[:4] == [10, 20, 30, 40]
    assert said[-1] - said[-2] > 100
    assert len(said) < 50
