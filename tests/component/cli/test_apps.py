import json
from pathlib import Path

import pytest

from esg.console.shapes import shape_text
from esg.core.catalog.file import load_catalog
from esg.core.catalog.on_kinds import on_its_cluster
from tests.component.cli.conftest import Run


def test_the_document_has_all_there_is(esg: Run) -> None:
    ran = esg("apps", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    fastest_us = on_its_cluster(load_catalog()).application("image-classification").fastest_us()
    names = [application["name"] for application in document["applications"]]
    assert names == list(load_catalog().applications)
    assert document["applications"][0] == {
        "name": "image-classification",
        "stages": [
            {"name": "super-resolution", "function": "super-resolution", "after": []},
            {"name": "segmentation", "function": "segmentation", "after": ["super-resolution"]},
            {"name": "classification", "function": "classification", "after": ["segmentation"]},
        ],
        "slo_ms": 526.0,
        "alone_ms": 526.0,
        "fastest_ms": fastest_us["super-resolution"] / 1000,
        "inputs": [{"name": "picture", "media_type": "image/*"}],
        "outputs": [{"name": "labels", "media_type": "application/json"}],
    }
    assert document["functions"][0] == {
        "name": "super-resolution",
        "model": "SRGAN",
        "configs": 256,
        "cold_start_ms": 3503.0,
        "input_mb": 2.7,
        "memory_mb": 1200,
        "min_config_ms": 86.0,
        "modelled_cpu": "within_job",
        "handler_cpu": "across_jobs",
        "inputs": [{"name": "picture", "media_type": "image/*"}],
        "outputs": [{"name": "picture", "media_type": "image/*"}],
        "kinds": ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
    }
    assert document["cluster"] == {
        "nodes": 16,
        "vcpus": 16,
        "vgpus": 7,
        "slice_memory_mb": 10000,
        "layouts": ["7"],
    }
    assert [kind["kind"] for kind in document["kinds"]] == [
        "1g.10gb",
        "2g.20gb",
        "3g.40gb",
        "4g.40gb",
        "7g.80gb",
    ]


def test_the_table_fits_into_80_columns(esg: Run) -> None:
    ran = esg("apps")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out
    assert "expanded-image-classification" in ran.out


@pytest.mark.parametrize(
    ("columns", "below"),
    [
        (40, "fastest ms: image-classification 323.3, depth-recognition 853.0"),
        (60, "memory MB: super-resolution 1200, segmentation 1600"),
    ],
)
def test_no_name_is_cut_on_a_narrow_terminal(
    esg: Run, monkeypatch: pytest.MonkeyPatch, columns: int, below: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    ran = esg("apps")
    assert (ran.code, ran.err) == (0, "")
    _, *others = ran.out.splitlines()  # the first is one line in a pipe
    assert max(map(len, others)) <= columns
    assert "…" not in ran.out
    words = " ".join(ran.out.split())
    assert below in words
    for name in ("expanded-image-classification", "background-removal", "deeplabv3_resnet50"):
        assert name in words


def test_a_dag_is_shown_by_its_shape(esg: Run, street: Path) -> None:
    ran = esg("apps", "--catalog", street)
    assert "deblur -> (left | right) -> classification" in ran.out
    assert "left runs segmentation, right runs depth" in ran.out


def test_application_without_a_shape_is_told_by_its_edges(street: Path) -> None:
    shape = shape_text(load_catalog(street).application("tangle"))
    assert shape == "a -> [b; c; e after b; f after b and c] -> z"


def test_the_catalog_may_come_from_the_environment(
    esg: Run, street: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESG_CATALOG", str(street))
    names = [found["name"] for found in json.loads(esg("apps", "--json").out)["applications"]]
    assert names == ["street", "tangle"]


def test_names_are_not_taken_for_markup(esg: Run, street: Path) -> None:
    marked = street.read_text("utf-8").replace("[applications.tangle.", '[applications."[red]x".')
    street.write_text(marked, "utf-8")
    assert "[red]x" in esg("apps", "--catalog", street).out
