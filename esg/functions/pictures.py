"""Pictures in and out: bytes, Pillow's images, and the arrays of networks.

Everything that a stage finds out about a picture travels in it, as text: in a PNG's text chunks, or
in a JPEG's comment. So whoever looks at the last picture of a pipeline knows what was done to it.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, PngImagePlugin

from esg.errors import Rejected

Floats = NDArray[np.float32]

FORMATS = ("PNG", "JPEG", "WEBP")
"""What is decoded. Pillow knows some forty more, and runs other programs for some of them."""
MOST_PIXELS = 16_000_000
"""A file of a few bytes can hold a picture of many gigabytes; larger ones are not decoded."""
PNG_PIXELS = 2_000_000
"""Larger pictures are sent on as JPEG: a PNG of them takes longer than most networks."""
MARK = "ESG "
"""What our notes begin with, to tell them from what a camera or an editor wrote."""
ZERO_TO_ONE = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
MINUS_ONE_TO_ONE = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Ranges that networks were trained with: the mean and the deviation of red, green and blue."""

Range = tuple[Sequence[float], Sequence[float]]


def decoded(content: bytes) -> Image.Image:
    """A picture as RGB, upright; what is transparent in it becomes white."""
    picture = _opened(content)
    with _decoding():
        upright = ImageOps.exif_transpose(picture)
        if upright.has_transparency_data:
            upright = Image.alpha_composite(
                Image.new("RGBA", upright.size, "white"), upright.convert("RGBA")
            )
        return upright.convert("RGB")


def planes(picture: Image.Image, values: Range = ZERO_TO_ONE) -> Floats:
    """Colours × height × width, as networks want it.

    >>> planes(Image.new("RGB", (2, 1), "red")).tolist()
    [[[1.0, 1.0]], [[0.0, 0.0]], [[0.0, 0.0]]]
    """
    mean, deviation = (np.array(part, np.float32) for part in values)
    pixels = np.asarray(picture, np.float32) / np.float32(255)
    return np.ascontiguousarray(((pixels - mean) / deviation).transpose(2, 0, 1))


def picture_of(array: Floats, values: Range = ZERO_TO_ONE) -> Image.Image:
    """The picture in an array of `planes`, or in one plane; values beyond the range are cut."""
    mean, deviation = (np.array(part, np.float32) for part in values)
    if array.ndim == 2:
        return Image.fromarray(_bytes(array))
    return Image.fromarray(_bytes(array.transpose(1, 2, 0) * deviation + mean))


def encoded(picture: Image.Image, notes: Mapping[str, str]) -> bytes:
    """A file with the picture and our notes: PNG, or JPEG if it is large and has no mask."""
    file = BytesIO()
    marked = {f"{MARK}{name}": text for name, text in notes.items()}
    if picture.mode == "RGBA" or picture.width * picture.height <= PNG_PIXELS:
        chunks = PngImagePlugin.PngInfo()
        for name, text in marked.items():
            chunks.add_itxt(name, text)
        picture.save(file, "PNG", pnginfo=chunks, compress_level=3)
    else:
        comment = "\n".join(f"{name}: {text}" for name, text in marked.items())
        picture.save(file, "JPEG", quality=92, comment=comment.encode())
    return file.getvalue()


def notes_of(content: bytes) -> dict[str, str]:
    """What earlier stages wrote into a picture."""
    picture = _opened(content)
    if isinstance(picture, PngImagePlugin.PngImageFile):
        with _decoding():  # they may come after its pixels
            told = {str(name): str(text) for name, text in picture.text.items()}
    else:
        comment = picture.info.get("comment", b"")
        lines = (
            comment.decode("utf-8", "replace").splitlines() if isinstance(comment, bytes) else []
        )
        told = dict(line.split(": ", 1) for line in lines if ": " in line)
    return {name.removeprefix(MARK): text for name, text in told.items() if name.startswith(MARK)}


def _opened(content: bytes) -> Image.Image:
    """Its size is known then, its pixels are not read yet."""
    try:
        with warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning):
            picture = Image.open(BytesIO(content), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Rejected(
            f"a picture of far too many pixels; send one of at most {MOST_PIXELS:,}"
        ) from None
    except (OSError, SyntaxError, ValueError):
        raise Rejected(
            f"{len(content)} bytes that are no picture; send a PNG, a JPEG or a WebP"
        ) from None
    if picture.width * picture.height > MOST_PIXELS:
        raise Rejected(
            f"a picture of {picture.width} × {picture.height} pixels; "
            f"send one of at most {MOST_PIXELS:,}"
        )
    return picture


@contextmanager
def _decoding() -> Iterator[None]:
    """What is wrong with a picture's content is its sender's mistake."""
    try:
        yield
    except (OSError, SyntaxError, ValueError) as error:
        raise Rejected(f"a picture that cannot be decoded: {error}; send it whole") from None


def _bytes(values: Floats) -> NDArray[np.uint8]:
    rounded: NDArray[np.uint8] = np.clip(values * 255 + 0.5, 0, 255).astype(np.uint8)
    return rounded
