import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from esg.cli import program
from esg.cli.evaluation import history
from esg.console import training as console_training
from esg.console.entry import run_app
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.policies.settings import Trained
from esg.emulator.run import emulate
from esg.emulator.scenario import Scenario
from esg.emulator.sweep import Generated
from esg.workload.plan import Workload
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.component.cli.test_training import minimum
from tests.support.sealed import plain, sealed

REQUESTS = 60


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    """A journal, and the document of the run that wrote it."""
    path, out = tmp_path_factory.mktemp("first") / "run.journal", io.StringIO()
    arguments = f"emulate --requests {REQUESTS} --nodes 6 --journal {path} --json"
    with redirect_stdout(out):
        assert run_app(program.app, "esg", arguments.split()) == 0
    return path.read_bytes(), json.loads(out.getvalue())


@pytest.fixture
def journal(first_run: tuple[bytes, dict[str, Any]], tmp_path: Path) -> Path:
    """One's own copy."""
    path = tmp_path / "run.journal"
    path.write_bytes(first_run[0])
    return path


@pytest.fixture
def emulated(journal: Path, first_run: tuple[bytes, dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    return journal, first_run[1]


def document(esg: Run, *arguments: object) -> dict[str, Any]:
    ran = esg(*arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


def same_figures(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Apart from what only the clock knows, and from what is not in a journal."""
    but = ("wall_s", "decision_ms", "setting")
    return {k: v for k, v in one.items() if k not in but} == {
        k: v for k, v in other.items() if k not in but
    }


def edit(path: Path, number: int, **changes: Any) -> dict[str, Any]:
    """Change a line of a journal; returns what it was."""
    lines = plain(path)
    before: dict[str, Any] = json.loads(lines[number])
    lines[number] = json.dumps(before | changes)
    path.write_bytes(sealed(lines))
    return before


# esg replay


def test_the_headings_tell_a_time_scale(esg: Run, tmp_path: Path) -> None:
    path, catalog = tmp_path / "fast.journal", load_catalog()
    scenario = Scenario(nodes=2, vcpus=16, vgpus=7, time_scale=0.2)
    arrivals = Generated(Workload(rate="heavy", requests=5)).arrivals(list(catalog.applications), 0)
    with path.open("w", encoding="utf-8") as file:
        emulate(catalog, scenario, arrivals, journal=file)
    for command in ("replay", "what-if"):
        ran = esg(command, path)
        assert ran.code == 0
        assert "time scale 0.2" in " ".join(ran.out.split())


def test_a_replay_is_identical(esg: Run, emulated: tuple[Path, dict[str, Any]]) -> None:
    path, run = emulated
    found = document(esg, "replay", path)
    assert found["identical"] is True
    assert found["entries"] == len(path.read_text("utf-8").splitlines()) - 1
    assert found["entries_per_s"] > 0
    reported = {k: v for k, v in found.items() if k in run["results"][0]}
    assert same_figures(reported, run["results"][0])


def test_a_replay_says_so_in_a_few_lines(esg: Run, journal: Path) -> None:
    ran = esg("replay", journal)
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"run\.journal: the same orders; \d+ entries in [\d.]+ s \(\d+/s\)\.", ran.out)
    assert f"{REQUESTS} requests" in ran.out
    assert "in time" in ran.out


@pytest.mark.parametrize("command", ["replay", "what-if"])
def test_requests_without_an_answer_are_named(esg: Run, journal: Path, command: str) -> None:
    """As in the journal of a mesh that is still up."""
    lines = journal.read_text("utf-8").splitlines(keepends=True)
    journal.write_text("".join(lines[:60]), "utf-8")
    told = " ".join(esg(command, journal).out.split())
    assert re.search(r"\b\d+ requests had no answer yet where it ends; those do not count\.", told)
    assert document(esg, "replay", journal)["unanswered"] > 0


def test_esg_what_if_emulates_a_cold_start(esg: Run, journal: Path) -> None:
    found = document(esg, "what-if", journal, "--cold-start")
    assert found["recorded"]["setting"]["warm_start"]
    assert not found["setting"]["warm_start"]
    assert found["results"][0]["cold_starts"] > 0


@pytest.mark.parametrize("command", ["replay", "what-if"])
def test_a_divergence_is_one_line_and_exit_code_1(esg: Run, journal: Path, command: str) -> None:
    before = edit(journal, 30, orders="f" * 16)
    ran = esg(command, journal)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    assert ran.err.startswith(
        f"error: the replay is not identical: entry 30 at {before['at']} us ({before['event']}): "
    )


def test_an_event_that_was_never_written_is_found(esg: Run, journal: Path) -> None:
    lines = plain(journal)
    journal.write_bytes(sealed(lines[:40] + lines[41:]))
    ran = esg("replay", journal)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


@pytest.mark.parametrize("command", ["replay", "what-if"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "...run.journal: empty, so it is no journal"),
        ("at_us,application\n5,a\n", "...run.journal: this is no journal: ..."),
        ("# ESG\n\nServes models.\n", "...run.journal: this is no journal: ..."),
        ("{}\n", "...run.journal: this is no journal: ..."),
    ],
)
def test_file_that_is_no_journal_is_refused(
    esg: Run, journal: Path, command: str, content: str, words: str
) -> None:
    journal.write_text(content, "utf-8")
    assert_refused(esg(command, journal), words)


@pytest.mark.parametrize("command", ["replay", "what-if"])
def test_a_torn_journal_is_refused(esg: Run, journal: Path, command: str) -> None:
    text = journal.read_text("utf-8")
    journal.write_text(text[:-5], "utf-8")
    assert_refused(
        esg(command, journal), f"...run.journal: line {text.count(chr(10))} (byte ...) is torn..."
    )


@pytest.mark.parametrize("command", ["replay", "what-if"])
def test_bytes_are_refused(esg: Run, journal: Path, command: str) -> None:
    journal.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    assert_refused(esg(command, journal), "...run.journal: not a journal: it is not text")


@pytest.mark.parametrize("command", ["replay", "what-if"])
def test_garbage_inside_is_refused_by_its_line(esg: Run, journal: Path, command: str) -> None:
    edit(journal, 10, event="Exploded")
    assert_refused(esg(command, journal), "...run.journal: journal line 11: ...")


@pytest.mark.parametrize("command", ["replay", "what-if"])
def test_journal_of_another_version_is_refused(esg: Run, journal: Path, command: str) -> None:
    edit(journal, 0, esg="99.0")
    assert_refused(esg(command, journal), "...written by esg 99.0 ...only the same one ...")


@pytest.mark.parametrize("command", ["replay", "what-if"])
def test_journal_of_another_catalog_is_refused(
    esg: Run, journal: Path, street: Path, command: str
) -> None:
    ran = esg(command, journal, "--catalog", street)
    assert_refused(ran, "...written with another catalog; name it with --catalog")


def test_a_policy_that_is_gone_is_refused(esg: Run, journal: Path) -> None:
    settings = json.loads(journal.read_text("utf-8").splitlines()[0])["settings"]
    edit(journal, 0, settings=settings | {"policy": "esgg"})
    assert_refused(esg("replay", journal), "...unknown policy 'esgg'; did you mean 'esg'?")


# esg what-if


def test_esg_what_if_under_the_same_conditions_gives_the_same_answers(
    esg: Run, emulated: tuple[Path, dict[str, Any]]
) -> None:
    path, run = emulated
    found = document(esg, "what-if", path)
    assert list(found) == ["journal", "recorded", "setting", "seeds", "limits", "results"]
    (again,) = found["results"]
    (first,) = run["results"]
    assert again["digest"] == found["recorded"]["digest"] == first["digest"]
    assert same_figures(again, first)
    assert same_figures(found["recorded"], first)
    assert found["limits"] == run["limits"]
    assert found["setting"] == found["recorded"]["setting"]


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (("--nodes", 16), "nodes", 16),
        (("--vcpus", 8), "vcpus", 8),
        (("--vgpus", 4), "vgpus", 4),
        (("--slo-scale", 0.8), "slo_scale", 0.8),
        (("--k", 1), "k", 1),
        (("--engine", "astar"), "engine", "astar"),
    ],
)
def test_esg_what_if_shows_other_conditions_beside_the_recorded_ones(
    esg: Run, journal: Path, arguments: tuple[object, ...], name: str, value: object
) -> None:
    found = document(esg, "what-if", journal, *arguments)
    assert found["setting"] == found["recorded"]["setting"] | {name: value}
    assert found["results"][0]["requests"] == found["recorded"]["requests"] == REQUESTS
    assert found["results"][0]["digest"] != found["recorded"]["digest"]


def test_esg_what_if_with_more_nodes_answers_more_in_time(esg: Run, journal: Path) -> None:
    found = document(esg, "what-if", journal, "--nodes", 16)
    assert found["results"][0]["slo_hit_rate"] > found["recorded"]["slo_hit_rate"]


def test_esg_what_if_shows_several_policies_below_the_recorded_run(esg: Run, journal: Path) -> None:
    ran = esg("what-if", journal, "--policy", "orion,fast-gshare", "--nodes", 8)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out
    rows = re.findall(r"^(as recorded|orion|fast-gshare|limits) .*\d", ran.out, re.MULTILINE)
    assert rows[:4] == ["as recorded", "orion", "fast-gshare", "limits"]
    assert "As recorded: esg, SLO 1.2 L, 6 nodes" in ran.out
    assert "What if: orion, fast-gshare; SLO 1.2 L, 8 nodes" in ran.out


def test_a_policy_that_did_not_write_the_journal_can_be_tried(esg: Run, journal: Path) -> None:
    found = document(esg, "what-if", journal, "--policy", "orion")
    assert found["recorded"]["policy"] == "esg"
    assert [result["policy"] for result in found["results"]] == ["orion"]


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[Catalog]:
    """The catalogs that a policy was trained on; it learns the least config of everything."""
    found: list[Catalog] = []

    def train(seen: Catalog, **_: object) -> Trained:
        found.append(seen)
        return minimum(seen)

    monkeypatch.setattr(console_training, "trained_configs", train)
    return found


@pytest.fixture
def of_aquatope(esg: Run, trainings: list[Catalog], tmp_path: Path) -> Path:
    """A journal that has what was learnt."""
    path = tmp_path / "aquatope.journal"
    wanted = ("--policy", "aquatope", "--requests", 20, "--nodes", 6)
    assert esg("emulate", *wanted, "--journal", path).code == 0
    assert len(trainings) == 1
    trainings.clear()
    return path


def test_configs_learnt_in_a_journal_are_not_learnt_again(
    esg: Run, of_aquatope: Path, trainings: list[Catalog]
) -> None:
    assert document(esg, "replay", of_aquatope)["identical"]
    for more in ((), ("--nodes", 8), ("--policy", "esg,aquatope")):
        found = document(esg, "what-if", of_aquatope, *more)
        assert found["results"][-1]["mean_batch"] == 1
    assert trainings == []


@pytest.mark.parametrize("changed", ["--vcpus 8", "--vgpus 2", "--slo-scale 2"])
def test_for_other_nodes_and_slos_a_policy_learns_anew(
    esg: Run, of_aquatope: Path, trainings: list[Catalog], changed: str
) -> None:
    document(esg, "what-if", of_aquatope, *changed.split())
    assert len(trainings) == 1


REFUSED = {
    "replay": "missing argument 'JOURNAL'; see esg replay --help",
    "replay nowhere": "nowhere: cannot be read: No such file or directory",
    "replay .": ".: no segment of a journal is in this directory",
    "replay nowhere --catalog nowhere.toml": "nowhere...",
    "what-if": "missing argument 'JOURNAL'; see esg what-if --help",
    "what-if nowhere": "nowhere: cannot be read: No such file or directory",
    "what-if nowhere --nodes 0": "--nodes is 0; it must be at least 1",
    "what-if nowhere --slo-scale 0": "--slo-scale is 0; it must be greater than 0 ...",
    "what-if nowhere --k 0": "--k is 0; it must be at least 1",
    "what-if nowhere --policy esg,best": "--policy: unknown policy 'best'; known: ...",
    "what-if nowhere --engine astr": "--engine: unknown engine 'astr'; did you mean 'astar'?",
    "what-if nowhere --seed 1": "no such option: --seed...",
}


@pytest.mark.parametrize(("line", "words"), REFUSED.items())
def test_a_bad_command_line_is_refused_in_one_line(esg: Run, line: str, words: str) -> None:
    assert_refused(esg(*line.split()), words)


def test_more_nodes_than_can_be_run_are_refused_before_a_long_replay(
    esg: Run, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(history, "replayed_strictly")
    done = esg("what-if", journal, "--nodes", 10000, "--vgpus", 10000)
    assert_refused(done, "10000 nodes x 10000 vGPUs are 100000000 vGPUs; ...")


def test_options_that_change_nothing_are_named(esg: Run, journal: Path) -> None:
    done = esg("what-if", journal, "--policy", "orion", "--k", 3, "--engine", "astar")
    assert done.code == 0
    assert done.err.splitlines() == [
        "note: --engine changes nothing here: it is about policy esg",
        "note: --k changes nothing here: it is about policy esg",
    ]
