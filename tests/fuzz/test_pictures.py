"""Pictures as clients send them: decoded, or refused as the caller's mistake."""

# attack: H1

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from esg.functions.pictures import FORMATS, decoded, notes_of
from tests.fuzz.broken import spoilt
from tests.fuzz.budget import fuzzed, gives_a_value_or_is_refused


def file_of(kind: str, mode: str = "RGB") -> bytes:
    file = BytesIO()
    Image.new(mode, (9, 7), 100).save(file, kind)
    return file.getvalue()


PICTURES = [*map(file_of, FORMATS), file_of("PNG", "P"), file_of("PNG", "LA")]


@pytest.mark.parametrize("read", [decoded, notes_of], ids=["decoded", "notes"])
def test_picture_that_is_broken_is_decoded_or_refused(read: object) -> None:
    @fuzzed()
    @given(st.sampled_from(PICTURES).flatmap(lambda content: spoilt([content])))
    def check(content: bytes) -> None:
        gives_a_value_or_is_refused(lambda: read(content))  # type: ignore[operator]

    check()
