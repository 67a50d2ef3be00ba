"""A picture in a terminal: every character is two pixels, the upper half of a block over the lower.

>>> from PIL import Image
>>> (line,) = half_blocks(Image.new("RGB", (30, 20), "red"), columns=3)
>>> str(line), line.spans[0].style
('▀▀▀', 'rgb(255,0,0) on rgb(255,0,0)')
"""

from itertools import zip_longest

import numpy as np
from PIL import Image as Pictures
from PIL.Image import Image
from rich.text import Text

Pixel = list[int]
"""Red, green and blue."""


def half_blocks(picture: Image, columns: int) -> list[Text]:
    """A picture as wide as so many characters, one text per line. What is transparent is shown as
    white."""
    rows = max(1, round(columns * picture.height / picture.width / 2)) * 2
    small = picture.convert("RGBA").resize((columns, rows), Pictures.Resampling.BOX)
    opaque = Pictures.alpha_composite(Pictures.new("RGBA", small.size, "white"), small)
    lines: list[list[Pixel]] = np.asarray(opaque.convert("RGB")).tolist()
    return [_line(upper, lower) for upper, lower in zip(lines[::2], lines[1::2], strict=True)]


def beside(pictures: list[list[Text]], gap: str = "  ") -> list[Text]:
    """Pictures of one width next to each other."""
    widths = [len(picture[0]) for picture in pictures]
    return [
        Text(gap).join(
            part if part is not None else Text(" " * width)
            for part, width in zip(parts, widths, strict=True)
        )
        for parts in zip_longest(*pictures)
    ]


def _line(upper: list[Pixel], lower: list[Pixel]) -> Text:
    line = Text()
    for above, below in zip(upper, lower, strict=True):
        line.append("▀", f"rgb({_numbers(above)}) on rgb({_numbers(below)})")
    return line


def _numbers(pixel: Pixel) -> str:
    return ",".join(map(str, pixel))
