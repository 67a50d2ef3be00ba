"""The links of the pages lead somewhere: to a file, and to a heading in it."""

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")]
LINK = re.compile(r"\]\((?P<file>[^)#\s]*)(?:#(?P<heading>[^)]*))?\)")


def headings(page: Path) -> set[str]:
    """The headings of a page, as code hosts name them in links."""
    found = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def broken(page: Path) -> list[str]:
    """The links of a page, within this repository, that lead nowhere."""
    found = []
    for link in LINK.finditer(page.read_text("utf-8")):
        target = page.parent / link["file"] if link["file"] else page
        if "://" in link["file"]:
            continue
        if not target.exists() or (link["heading"] and link["heading"] not in headings(target)):
            found.append(link[0])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](#here) [b](#there) [c](page.md#here) [d](gone.md)\n", "utf-8")
    assert broken(page) == ["](#there)", "](gone.md)"]
