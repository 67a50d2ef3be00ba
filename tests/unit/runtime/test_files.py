"""Files that change under a running process."""

import os
from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.runtime.security.files import Reloaded


class Counted:
    """A file whose content is a number, and how often it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read = 0

    def __call__(self) -> int:
        self.read += 1
        text = self.path.read_text("ascii")
        if text == "refused":
            raise Rejected("no number")
        return int(text)


def test_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "n")
    counted.path.write_text("1", "ascii")
    number = Reloaded([counted.path], counted)
    assert [number.get() for _ in range(5)] == [1] * 5
    assert counted.read == 1
    counted.path.write_text("22", "ascii")
    assert [number.get() for _ in range(5)] == [22] * 5
    assert counted.read == 2


def test_a_file_of_the_same_size_and_date_that_took_its_place_is_noticed(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "n")
    counted.path.write_text("1", "ascii")
    number = Reloaded([counted.path], counted)
    seen = counted.path.stat()
    (tmp_path / "new").write_text("2", "ascii")
    os.utime(tmp_path / "new", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    (tmp_path / "new").rename(counted.path)
    assert number.get() == 2


@pytest.mark.parametrize("content", ["refused", "nonsense", None])
def test_file_that_is_no_good_changes_nothing_and_is_said_once(
    content: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counted = Counted(tmp_path / "n")
    counted.path.write_text("1", "ascii")
    number = Reloaded([counted.path], counted)
    if content is None:
        counted.path.unlink()
    else:
        counted.path.write_text(content, "ascii")
    assert [number.get() for _ in range(3)] == [1] * 3
    assert caplog.text.count("not read again") == 1
    counted.path.write_text("333", "ascii")
    assert number.get() == 333


def test_file_has_to_be_good_at_first(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "n")
    counted.path.write_text("refused", "ascii")
    with pytest.raises(Rejected):
        Reloaded([counted.path], counted)
