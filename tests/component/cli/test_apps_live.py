"""`esg apps` and `esg reload` of a live mesh: a gateway in a process of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.cli.conftest import Run
from tests.support.running_gateway import playing_mesh

FILE = """
[applications.portrait]
chain = ["deblur", "depth"]
slo_ms = 900

[applications.street]
slo_scale = 1.5
late_requests = "drop"
[applications.street.stages.deblur]
[applications.street.stages.left]
function = "depth"
after = ["deblur"]
"""


@pytest.fixture
def gateway(redis_url: str, tmp_path: Path) -> Iterator[str]:
    directory = tmp_path / "mesh"
    directory.mkdir()
    with playing_mesh(redis_url, directory) as (_, address):
        yield address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "applications.toml"
    path.write_text(FILE)
    return path


def test_applications_of_a_mesh_are_added_shown_updated_and_removed(
    esg: Run, gateway: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESG_GATEWAY", gateway)
    ran = esg("apps", "add", file)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == "added portrait: SLO of 900 ms"
    ran = esg("apps")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Applications of the mesh at {gateway}:\n")
    assert "deblur -> depth " in ran.out
    assert "deblur -> left (depth) " in ran.out
    ran = esg("apps", "add", file)
    assert (ran.code, ran.out) == (2, "")
    assert "portrait" in ran.err
    file.write_text(FILE.replace("slo_ms = 900", "slo_ms = 800"))
    ran = esg("apps", "update", file, "--json")
    assert (ran.code, ran.err) == (0, "")
    portrait, street = json.loads(ran.out)["applications"]
    assert (portrait["slo_ms"], portrait["version"]) == (800.0, 2)
    assert street["late_requests"] == "drop"
    assert street["stages"][1] == {"name": "left", "function": "depth", "after": ["deblur"]}
    ran = esg("apps", "remove", "portrait", "nobody")
    assert (ran.code, ran.out) == (2, "removed portrait\n")
    assert "nobody" in ran.err
    document = json.loads(esg("apps", "--json").out)
    assert document["gateway"] == gateway
    names = [found["name"] for found in document["applications"]]
    assert "street" in names
    assert "portrait" not in names


def test_the_catalog_is_shown_if_it_is_named_whatever_the_environment_says(
    esg: Run, street: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESG_GATEWAY", "127.0.0.1:1")
    ran = esg("apps", "--catalog", street)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Applications of the catalog {street}; --gateway shows")
    assert json.loads(esg("apps", "--catalog", street, "--json").out)["catalog"] == str(street)
    assert esg("apps").code == 3
    monkeypatch.delenv("ESG_GATEWAY")
    assert esg("apps").out.startswith("Applications of ESG's own catalog; ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "applications: is missing; add it"),
        ("[applications]", "applications: is empty; define at least one"),
        ("x", "not valid TOML"),
        ("[applications.a]\nchain = ['b']\nslo = 1", "applications.a.slo: unknown key 'slo'"),
        ("[applications.a]\nslo_ms = 1", "either chain or stages"),
        ("[aplications.b]\n[applications.a]\nchain = ['b']", "unknown key 'aplications'"),
    ],
)
def test_file_that_says_nothing_sensible_is_refused_before_anybody_is_called(
    esg: Run, tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "applications.toml"
    path.write_text(content)
    ran = esg("apps", "add", path, "--gateway", "127.0.0.1:1")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_what_cannot_be_meant_is_refused(esg: Run, street: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("--gateway", "127.0.0.1:1", "--catalog", street), "give one of them"),
        (("--gateway", "127.0.0.1:1", "remove", "x"), "options go behind the command"),
        (("add", tmp_path / "none.toml"), "none.toml: cannot be read: No such file"),
    ):
        ran = esg("apps", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err


def test_without_a_gateway_it_is_said_what_to_do(esg: Run, file: Path) -> None:
    for arguments in (("--gateway",), ("add", file, "--gateway"), ("remove", "x", "--gateway")):
        ran = esg("apps", *arguments, "127.0.0.1:1")
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith("error: no gateway at 127.0.0.1:1; start a mesh with esg up")


def test_a_function_is_reloaded_and_nodes_that_could_not_are_told(esg: Run, gateway: str) -> None:
    done = esg("reload", "first", "--gateway", gateway)
    assert (done.code, done.out, done.err) == (0, "i0: first reloaded\ni1: first reloaded\n", "")
    failed = esg("reload", "second", "--gateway", gateway)
    assert (failed.code, failed.out) == (1, "i0: second reloaded\n")
    assert failed.err.endswith("i1: not reloaded: no module named x\n")
    told = json.loads(esg("reload", "second", "--gateway", gateway, "--json").out)
    assert told == {
        "function": "second",
        "nodes": [
            {"node": "i0", "failure": None},
            {"node": "i1", "failure": "no module named x"},
        ],
    }
    unknown = esg("reload", "third", "--gateway", gateway)
    assert (unknown.code, unknown.out) == (2, "")
    assert "unknown function 'third'" in unknown.err
