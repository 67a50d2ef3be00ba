"""Every promise in docs/promises.md names a test that is there."""

import re

import pytest

from tests.support.paths import ROOT

LINES = (ROOT / "docs" / "promises.md").read_text("utf-8").partition("\n## ")[0].splitlines()
ROWS = [line for line in LINES if line.startswith("| ") and not line.startswith("| promise ")]


@pytest.mark.parametrize("row", ROWS)
def test_a_promise_has_a_fault_and_tests_that_exist(row: str) -> None:
    promise, fault, tests = (cell.strip() for cell in row.strip("|").split(" | "))
    assert promise
    assert fault
    names = re.findall(r"`([^`]+)::(\w+)`", tests)
    assert names
    for path, function in names:
        assert re.search(rf"^(async )?def {function}\(", (ROOT / path).read_text("utf-8"), re.M)
