"""Inputs and outputs: as catalogs declare them, and what fits what in an application."""

from pathlib import Path

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Function, Stage
from esg.core.catalog.ports import OPAQUE, PLAIN_INPUT, PLAIN_OUTPUT, Port, Ports
from esg.core.catalog.profile import Prices, Profile
from esg.errors import Rejected
from tests.support.integration_catalog import write_catalog

PICTURE = Port("picture", "image/*")
BOXES = Port("boxes", datatype="FP32", shape=(-1, 4))
SCORES = Port("scores", datatype="FP32", shape=(-1,))


def function(name: str, inputs: Ports = PLAIN_INPUT, outputs: Ports = PLAIN_OUTPUT) -> Function:
    profile = Profile.of(name, {Config(1, 1, 1): 1000}, Prices())
    return Function(
        name=name,
        profile=profile,
        cold_start_us=0,
        input_bytes=0,
        memory_mb=1,
        inputs=inputs,
        outputs=outputs,
    )


LOAD = function("load", outputs=(PICTURE,))
DETECT = function("detect", (PICTURE,), (BOXES, SCORES))
SAY = function("say", (Port("t", "text/plain"),))
DRAW = function("draw", (PICTURE, BOXES), (Port("drawn", "image/png"),))


def drawing(*stages: Stage) -> Application:
    return Application.of("drawing", stages)


def test_an_application_has_the_inputs_of_its_root_and_the_outputs_of_its_last_stages() -> None:
    found = drawing(
        Stage("load", LOAD),
        Stage("detect", DETECT, ("load",)),
        Stage("draw", DRAW, ("load", "detect")),
        Stage("note", function("note"), ("load",)),
    )
    assert found.inputs == PLAIN_INPUT
    assert {name: stage for name, (stage, _) in found.outputs.items()} == {
        "drawn": "draw",
        "output": "note",
    }


def test_an_output_whose_name_is_another_ones_too_has_its_stage_in_front() -> None:
    twice = [Stage(name, function("note"), ("load",)) for name in ("left", "right")]
    assert list(drawing(Stage("load", LOAD), *twice).outputs) == ["left.output", "right.output"]


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (
            [Stage("load", LOAD), Stage("say", SAY, ("load",))],
            "stage 'say' takes t (text/plain), and 'load' before it gives picture (image/*)",
        ),
        (
            [Stage("detect", DETECT), Stage("draw", DRAW, ("detect",))],
            "inputs picture, boxes need one output each",
        ),
        (
            [Stage("detect", DETECT), Stage("note", function("note"), ("detect",))],
            "gives boxes, scores, none of which is an input there (input)",
        ),
        (
            [
                Stage("detect", DETECT),
                Stage("far", function("far", (Port("boxes", datatype="FP32", shape=(-1, 5)),)),
                      ("detect",)),
            ],
            "takes boxes (FP32 [-1, 5]), and 'detect' before it gives boxes (FP32 [-1, 4])",
        ),
    ],
)  # fmt: skip
def test_edges_that_do_not_fit_are_refused(stages: list[Stage], words: str) -> None:
    with pytest.raises(Rejected) as refused:
        drawing(*stages)
    assert words in str(refused.value)


def test_bytes_of_any_kind_fit_where_bytes_are_taken() -> None:
    drawing(Stage("any", function("any")), Stage("say", SAY, ("any",)))
    drawing(Stage("load", LOAD), Stage("note", function("note"), ("load",)))


def test_a_stage_picks_one_of_several_outputs_by_its_name() -> None:
    rank = function("rank", (SCORES,))
    drawing(Stage("detect", DETECT), Stage("rank", rank, ("detect",)))


def declared(folder: Path, text: str) -> Function:
    file = write_catalog(folder)
    file.write_text(file.read_text().replace("[functions.tag]", f"{text}\n[functions.tag]"))
    content = file.read_text()
    file.write_text(content)
    return load_catalog(file).functions["tag"]


def test_a_function_that_declares_nothing_has_one_input_and_one_output_of_any_bytes(
    tmp_path: Path,
) -> None:
    found = declared(tmp_path, "")
    assert (found.inputs, found.outputs) == ((Port("input", OPAQUE),), (Port("output", OPAQUE),))


def test_inputs_and_outputs_are_read_from_a_catalog(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        '[functions.tag.inputs.picture]\nmedia_type = "image/*"\n'
        '[functions.tag.outputs.boxes]\ndatatype = "FP32"\nshape = [-1, 4]\n',
    )
    assert (found.inputs, found.outputs) == ((PICTURE,), (BOXES,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "media_type: give either a media_type, for bytes, or a datatype, for a tensor"),
        ('media_type = "image"', """media_type: is 'image'; write it as in "image/*\""""),
        ('datatype = "FP31"\nshape = [1]', "datatype: unknown datatype 'FP31'; did you mean"),
        ('datatype = "FP32"', "shape: is missing"),
        ('datatype = "FP32"\nshape = [-2]', "shape: must be a list of whole numbers from -1"),
        ('media_type = "image/*"\nsize = 3', "size: unknown key"),
    ],
)
def test_what_is_declared_wrongly_is_refused_with_the_field(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(Rejected) as refused:
        declared(tmp_path, f"[functions.tag.inputs.picture]\n{text}\n")
    assert f"functions.tag.inputs.picture.{words}" in str(refused.value)
