"""`esg demo --real`, as a process of its own: a photo through real models, on Triton servers."""

import json
import subprocess
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from esg.cli.demo.real_findings import PHOTO, RealDemoFindings, RealDemonstration
from esg.cli.demo.real_view import RealDemoView
from esg.client import Config, Outcome, Result, StageResult
from tests.component.cli.conftest import Run
from tests.component.cli.test_demo import ESG, surroundings
from tests.component.cli.test_refusals import assert_refused
from tests.support.waiting import COMMAND_LIMIT_S


def test_a_photo_is_enlarged_masked_and_labelled(tmp_path: Path) -> None:
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    temporary.mkdir()
    done = subprocess.run(
        [ESG, "demo", "--real", "--out", out, "--json"],
        env=surroundings(temporary),
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["answer"]["label"] == "military uniform"
    files = {stage: Path(path) for stage, path in told["outputs"].items()}
    assert sorted(path.name for path in out.iterdir()) == [
        "photo.jpg.classification.json",
        "photo.jpg.segmentation.png",
        "photo.jpg.super-resolution.png",
    ]
    with Image.open(files["super-resolution"]) as enlarged, Image.open(PHOTO) as photo:
        assert enlarged.size == (2 * photo.width, 2 * photo.height)
    with Image.open(files["segmentation"]) as masked:
        mask = masked.getchannel("A").resize((10, 10))
        assert mask.getpixel((5, 8)) == 255
        assert mask.getpixel((0, 0)) == 0
    assert json.loads(files["classification"].read_text()) == told["answer"]
    assert [request["outcome"] for request in told["requests"]] == ["done", "done"]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "x"), "--photo and --out are for real models; add --real"),
        (("--real", "--photo", "no.jpg"), "--photo: no.jpg: no such file; name a picture"),
    ],
)
def test_esg_demo_real_refuses_impossible_options_in_one_line(
    esg: Run, arguments: tuple[object, ...], words: str
) -> None:
    assert_refused(esg("demo", *arguments), words)


# ---- how it is told


def picture(mode: str, colour: object) -> bytes:
    file = BytesIO()
    Image.new(mode, (8, 8), colour).save(file, "PNG")  # type: ignore[arg-type]
    return file.getvalue()


ANSWER = {
    "label": "cat",
    "score": 0.75,
    "others": [{"label": "dog", "score": 0.2}],
    "weights": {
        "super-resolution": "trained: A",
        "segmentation": "trained: B",
        "classification": "untrained: C",
    },
    "found": {"segmentation": "person 58%"},
}
OUTPUTS = {
    "super-resolution": picture("RGB", "red"),
    "segmentation": picture("RGBA", (0, 0, 255, 0)),
    "classification": json.dumps(ANSWER).encode(),
}


def result(outcome: Outcome, run_ms: float, reason: str = "") -> Result:
    stages = tuple(
        StageResult(
            stage=stage,
            task="t1",
            node="node0",
            config=Config(1, 1, 1),
            ready_ms=0,
            started_ms=50,
            finished_ms=50 + run_ms,
            cost_usd=0,
        )
        for stage in OUTPUTS
    )
    return Result(
        request_id="r1",
        application="image-classification",
        outcome=outcome,
        reason=reason,
        slo_met=True,
        slo_ms=1000,
        latency_ms=3 * (50 + run_ms) + 4,
        cost_usd=0,
        stages=stages if outcome is Outcome.DONE else stages[:1],
        outputs=OUTPUTS if outcome is Outcome.DONE else {},
    )


def told(seen: RealDemoFindings, *, colours: bool) -> str:
    written = StringIO()
    system = "truecolor" if colours else None
    view = RealDemoView(
        Console(file=written, width=80, force_terminal=colours, color_system=system)
    )  # type: ignore[arg-type]
    photo = picture("RGB", "lime")
    view.begin(RealDemonstration(photo=PHOTO, out=Path("out")), photo)
    view.ran(seen)
    if seen.all_right:
        view.pictures(photo, seen)
    view.end(seen)
    return written.getvalue()


def test_the_story_says_which_weights_were_trained() -> None:
    files = {stage: Path("out", stage) for stage in OUTPUTS}
    done = [result(Outcome.DONE, 900), result(Outcome.DONE, 100)]
    out = told(RealDemoFindings(results=done, files=files), colours=False)
    assert max(map(len, out.splitlines())) <= 80
    rows = [line.split() for line in out.splitlines()]
    assert ["super-resolution", "50", "900", "50", "100"] in rows
    assert ["on", "the", "way", "4", "4"] in rows
    assert ["in", "all", str(3 * 950 + 4), str(3 * 150 + 4)] in rows
    assert "  cat 75% (then: dog 20%)\n  untrained: C\n  out/classification\n" in out
    assert "  person 58% of the picture" in out
    assert "▀" not in out


def test_a_terminal_with_colours_shows_the_pictures() -> None:
    files = {stage: Path("out", stage) for stage in OUTPUTS}
    done = [result(Outcome.DONE, 900), result(Outcome.DONE, 100)]
    out = told(RealDemoFindings(results=done, files=files), colours=True)
    line = next(line for line in out.splitlines() if "▀" in line)
    assert line.count("▀") == 3 * 24
    for colour in ("38;2;0;255;0", "38;2;255;0;0", "38;2;255;255;255"):
        assert f"\x1b[{colour};" in line


def test_a_failure_is_told_with_its_reason() -> None:
    seen = RealDemoFindings(results=[result(Outcome.FAILED, 5, "no weights today")])
    assert not seen.all_right
    assert "failed: no weights today" in told(seen, colours=False)
