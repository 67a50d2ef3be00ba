"""Files with what was learnt that are not what they should be."""

from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.runtime.trained_configs import read_learnt


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"app": 1}',
        '{"app": {"stage": [1, 2]}}',
        '{"app": {"stage": [1, 2, "x"]}}',
        "[" * 9999,
    ],
)
def test_nonsense_is_refused_with_the_way_to_write_it_anew(text: str, tmp_path: Path) -> None:
    file = tmp_path / "learnt.json"
    file.write_text(text)
    with pytest.raises(Rejected, match=f"^{file}: .*write it anew with `esg train {file}`$"):
        read_learnt(file)


def test_a_file_that_is_not_there_is_refused_with_the_way_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"No such file or directory; `esg train .*` writes it$"):
        read_learnt(tmp_path / "learnt.json")
