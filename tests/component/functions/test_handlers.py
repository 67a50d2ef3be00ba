"""The CPU parts of the functions, without their models: what they give a network, and what they
make of what it gives."""

import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from esg.errors import Fault, Rejected
from esg.functions.pictures import MOST_PIXELS, PNG_PIXELS, decoded, encoded, notes_of
from tests.support.function_folders import NAMES, PHOTO, SIZE, handler, saying

PICTURE = PHOTO.read_bytes()


def file_of(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = BytesIO()
    picture.save(file, kind, **options)  # type: ignore[arg-type]
    return file.getvalue()


def opened(content: bytes) -> Image.Image:
    return Image.open(BytesIO(content))


@pytest.mark.parametrize(
    ("name", "shape", "lowest", "highest"),
    [
        ("super-resolution", (3, 300, 256), 0, 1),
        ("deblur", (3, 300, 256), -1, 1),
        ("segmentation", (3, 512, 512), -2.2, 2.7),
        ("classification", (3, 224, 224), -2.2, 2.7),
        ("background-removal", (3, 320, 320), -2.2, 2.7),
        ("depth", (3, 256, 256), -2.2, 2.7),
    ],
)
def test_a_photo_becomes_what_the_network_was_trained_on(
    name: str, shape: tuple[int, ...], lowest: float, highest: float
) -> None:
    given = handler(name).prepare([PICTURE])
    assert list(given) == ["picture"]
    array = given["picture"]
    assert (array.shape, array.dtype) == (shape, np.float32)
    assert lowest <= array.min() < array.mean() < array.max() <= highest


@pytest.mark.parametrize("name", NAMES)
def test_payload_that_is_no_picture_is_refused(name: str) -> None:
    with pytest.raises(Rejected, match="7 bytes that are no picture; send a PNG, a JPEG or a WebP"):
        handler(name).prepare([b"nothing"])


def test_half_a_picture_is_refused() -> None:
    with pytest.raises(Rejected, match=r"a picture that cannot be decoded: .*; send it whole"):
        decoded(PICTURE[: len(PICTURE) // 2])


def test_a_picture_that_would_fill_the_memory_is_not_decoded() -> None:
    side = int(MOST_PIXELS**0.5) + 1
    bomb = file_of(Image.new("1", (side, side)))
    assert len(bomb) < 10_000
    with pytest.raises(Rejected, match=f"a picture of {side} × {side} pixels; send one of at most"):
        decoded(bomb)


def test_a_photo_that_was_taken_upright_is_turned() -> None:
    turned = Image.new("RGB", (40, 20), "red")
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    assert decoded(file_of(turned, "JPEG", exif=exif.tobytes())).size == (20, 40)


@pytest.mark.parametrize(
    ("mode", "kind"), [("1", "PNG"), ("L", "PNG"), ("P", "PNG"), ("CMYK", "JPEG"), ("RGB", "WEBP")]
)
def test_any_kind_of_picture_is_read_as_colours(mode: str, kind: str) -> None:
    assert decoded(file_of(Image.new(mode, (8, 8)), kind)).mode == "RGB"


# attack: H1
@pytest.mark.parametrize("kind", ["TIFF", "PCX", "ICO", "TGA", "GIF", "BMP", "PPM"])
def test_picture_in_a_format_that_functions_do_not_name_is_refused(kind: str) -> None:
    content = file_of(Image.new("RGB", (16, 16), "red"), kind)
    with pytest.raises(Rejected, match="that are no picture; send a PNG, a JPEG or a WebP"):
        decoded(content)


# attack: H1
def test_postscript_is_not_handed_to_an_interpreter() -> None:
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    with pytest.raises(Rejected, match="that are no picture"):
        decoded(program)


def test_transparent_pixels_are_read_as_white() -> None:
    clear = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert decoded(file_of(clear)).getpixel((0, 0)) == (255, 255, 255)


def test_an_enlarged_picture_is_a_picture() -> None:
    enlarged = np.full((3, 8, 6), 0.5, np.float32)
    enlarged[0] = 1.7  # more than there is
    content = handler("super-resolution").finish(saying("trained: X", enlarged=enlarged), [PICTURE])
    picture = opened(content)
    assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (6, 8))
    assert picture.getpixel((0, 0)) == (255, 128, 128)
    assert notes_of(content) == {"super-resolution weights": "trained: X"}


def test_a_picture_of_odd_size_is_sharpened_in_its_own_size() -> None:
    odd = file_of(Image.new("RGB", (10, 7), "red"))
    given = handler("deblur").prepare([odd])["picture"]
    assert given.shape == (3, 8, 12)
    content = handler("deblur").finish(saying("trained: X", sharpened=given), [odd])
    assert opened(content).size == (10, 7)
    assert np.array_equal(decoded(content), decoded(odd))


def halves(classes: int, left: int) -> np.ndarray:
    """Scores of a network that sees a class in the left half, and background in the right one."""
    scores = np.zeros((classes, 64, 64), np.float32)
    scores[left, :, :32] = 20
    scores[0, :, 32:] = 20
    return scores


@pytest.mark.parametrize(("classes", "left", "found"), [(2, 1, "person"), (21, 12, "dog")])
def test_a_mask_lies_over_the_whole_picture(classes: int, left: int, found: str) -> None:
    outputs = saying("trained: X", scores=halves(classes, left))
    content = handler("segmentation").finish(outputs, [PICTURE])
    picture = opened(content)
    assert (picture.mode, picture.size) == ("RGBA", SIZE)
    mask = np.asarray(picture.getchannel("A"))
    assert mask[:, :100].min() == 255
    assert mask[:, 156:].max() == 0
    assert np.array_equal(picture.convert("RGB"), decoded(PICTURE))
    assert notes_of(content)["segmentation found"] == f"{found} 50%"


def test_segmentation_that_finds_nothing_masks_nothing() -> None:
    outputs = saying("trained: X", scores=halves(2, 0))
    content = handler("segmentation").finish(outputs, [PICTURE])
    assert notes_of(content)["segmentation found"] == "nothing"
    assert opened(content).getchannel("A").getextrema() == (255, 255)


def test_background_removal_without_a_foreground_removes_nothing() -> None:
    outputs = saying("trained: X", mask=np.zeros((1, 64, 64), np.float32))
    content = handler("background-removal").finish(outputs, [PICTURE])
    assert notes_of(content)["background-removal found"] == "nothing"
    assert np.array_equal(decoded(content), decoded(PICTURE))


def test_a_network_of_unknown_classes_is_a_fault() -> None:
    outputs = saying("trained: X", scores=halves(7, 1))
    with pytest.raises(Fault, match="a network of 7 classes; known are those of"):
        handler("segmentation").finish(outputs, [PICTURE])


def test_a_background_is_removed_for_good() -> None:
    mask = np.zeros((1, 64, 64), np.float32)
    mask[:, :, :32] = 1
    outputs = saying("trained: X", mask=mask)
    cut_out = opened(handler("background-removal").finish(outputs, [PICTURE]))
    assert (cut_out.mode, cut_out.size) == ("RGBA", SIZE)
    assert cut_out.getpixel((250, 10)) == (255, 255, 255, 0)
    left, photo = cut_out.getpixel((10, 10)), decoded(PICTURE).getpixel((10, 10))
    assert isinstance(photo, tuple)
    assert left == (*photo, 255)


def test_the_nearest_is_the_brightest() -> None:
    nearness = np.linspace(-3, 500, 64 * 64, dtype=np.float32).reshape(64, 64)
    content = handler("depth").finish(saying("untrained: X", nearness=nearness), [PICTURE])
    picture = opened(content)
    assert (picture.mode, picture.size) == ("L", SIZE)
    assert picture.getextrema() == (0, 255)
    assert notes_of(content) == {"depth weights": "untrained: X"}


def test_a_depth_that_is_the_same_everywhere_is_a_picture_too() -> None:
    nearness = np.full((64, 64), 7, np.float32)
    content = handler("depth").finish(saying("untrained: X", nearness=nearness), [PICTURE])
    assert opened(content).getextrema() == (0, 0)


def test_the_label_is_that_of_the_highest_score() -> None:
    scores = np.zeros(1000, np.float32)
    scores[652], scores[0] = 9, 8
    content = handler("classification").finish(saying("trained: X", scores=scores), [PICTURE])
    answer = json.loads(content)
    assert (answer["label"], answer["others"][0]["label"]) == ("military uniform", "tench")
    assert 0.6 < answer["score"] < 0.7
    assert len(answer["others"]) == 4
    assert answer["weights"] == {"classification": "trained: X"}


def test_every_class_has_a_name_of_its_own() -> None:
    labels = Path(PHOTO.parent, "classification", "labels.txt").read_text("utf-8").splitlines()[1:]
    assert (len(labels), len(set(labels))) == (1000, 1000)


def test_the_last_stage_tells_what_all_were_made_with() -> None:
    enlarged = handler("super-resolution").finish(
        saying("trained: A", enlarged=np.zeros((3, 8, 8), np.float32)), [PICTURE]
    )
    masked = handler("segmentation").finish(saying("untrained: B", scores=halves(2, 1)), [enlarged])
    outputs = saying("trained: C", scores=np.arange(1000, dtype=np.float32))
    answer = json.loads(handler("classification").finish(outputs, [masked]))
    assert answer["weights"] == {
        "super-resolution": "trained: A",
        "segmentation": "untrained: B",
        "classification": "trained: C",
    }
    assert answer["found"] == {"segmentation": "person 50%"}


def test_a_large_picture_is_sent_on_as_jpeg_with_its_notes() -> None:
    side = int(PNG_PIXELS**0.5) + 1
    content = encoded(Image.new("RGB", (side, side)), {"deblur weights": "trained: Ä: B"})
    assert opened(content).format == "JPEG"
    assert notes_of(content) == {"deblur weights": "trained: Ä: B"}


def test_comments_that_a_camera_wrote_are_not_taken_for_notes_of_a_function() -> None:
    assert notes_of(file_of(Image.new("RGB", (4, 4)), "JPEG", comment=b"weights: trained")) == {}
