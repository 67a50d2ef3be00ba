"""`--layout`: slices of other kinds, where a cluster is emulated."""

from pathlib import Path

import pytest

from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.emulated_command import SHORT, document, result

MIXED = ("--layout", "4g.40gb+3g.40gb,7", "--nodes", "2", "--requests", "20")


def test_nodes_have_the_layouts_in_turn(esg: Run) -> None:
    setting = document(esg, *MIXED)["setting"]
    assert [one["slices"] for one in setting["classes"]] == [["4g.40gb", "3g.40gb"], [""] * 7]
    assert (setting["nodes"], setting["vcpus"], setting["vgpus"]) == (2, 16, 7)
    assert "1 node x 16 vCPUs x 4g.40gb+3g.40gb and 1 node x 16 vCPUs x 7 vGPUs" in " ".join(
        esg("emulate", *MIXED).out.split()
    )


def test_layout_of_usual_slices_is_what_vgpus_are(esg: Run) -> None:
    options = (("--vgpus", "5"), ("--layout", "5"), ("--layout", "5x1g.10gb"))
    first, *others = (document(esg, *SHORT, *option) for option in options)
    for found in others:
        assert found["setting"] == first["setting"]
        assert found["results"][0]["digest"] == first["results"][0]["digest"]


def test_layout_without_a_change_decides_as_before(esg: Run) -> None:
    assert result(esg)["digest"] == result(esg, "--layout", "7")["digest"]


def test_what_if_the_slices_of_a_journal_had_been_larger(esg: Run, tmp_path: Path) -> None:
    journal = tmp_path / "day.journal"
    assert esg("emulate", "--requests", "20", "--journal", journal).code == 0
    ran = esg("what-if", journal, "--layout", "4g.40gb+3g.40gb", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert '"4g.40gb"' in ran.out


def test_journal_of_a_mixed_cluster_is_replayed(esg: Run, tmp_path: Path) -> None:
    journal = tmp_path / "day.journal"
    assert esg("emulate", *MIXED, "--journal", journal).code == 0
    assert esg("replay", journal).code == 0


@pytest.mark.parametrize(
    ("line", "words"),
    {
        "--layout 9g.40gb": "--layout: ...'9g.40gb'...; did you mean '4g.40gb'?",
        "--layout 3g.40gb+": "--layout: ...as in 2x3g.40gb",
        "--layout 0": "--layout: ...0 slices; a node has 1 to 1000",
        "--layout 7 --vgpus 3": "--vgpus are usual slices...--layout...; give one of them",
        "--layout 900 --nodes 900": "900 nodes x 900 vGPUs ...",
    }.items(),
)
@pytest.mark.parametrize("command", ["emulate", "capacity"])
def test_layout_that_cannot_be_is_refused_in_one_line(
    esg: Run, command: str, line: str, words: str
) -> None:
    assert_refused(esg(command, *line.split()), words)
