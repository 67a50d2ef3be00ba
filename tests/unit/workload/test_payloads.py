"""Pictures to send: real ones, of the right size, the same for everybody."""

import struct
import zlib
from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.workload import payloads
from esg.workload.payloads import Pictures, png, read_folder


def decoded(picture: bytes) -> tuple[int, int, bytes]:
    """A PNG's width, height and lines, read by the letter of its specification."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        kind, content = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", picture, at + 8 + length)
        assert checksum == zlib.crc32(kind + content)
        chunks[kind] = content
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour, rest) == (8, 2, [0, 0, 0])
    return width, height, zlib.decompress(chunks[b"IDAT"])


@pytest.mark.parametrize("size", [0, 100, 27_000, 2_700_000])
def test_a_generated_picture_is_a_png_of_about_its_size(size: int) -> None:
    picture = png(size, seed="a")
    width, height, lines = decoded(picture)
    assert width == height >= 1
    assert len(lines) == height * (1 + 3 * width)
    assert {lines[n] for n in range(0, len(lines), 1 + 3 * width)} == {0}
    if size > 1000:
        assert len(picture) == pytest.approx(size, rel=0.02)
    else:
        assert len(picture) < 200


def test_every_application_has_a_picture_of_its_own_and_the_same_everywhere() -> None:
    pictures = Pictures(sizes={"photo": 3000, "scene": 9000})
    one, other = pictures.taken(1, 2), pictures.taken(2, 2)
    assert one("photo") == one("photo") == other("photo")
    assert len(one("photo")) < len(one("scene"))
    assert pictures.largest == 9000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.png", "a.png", "c.jpg", ".hidden"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "inside").mkdir()
    return tmp_path


def test_pictures_of_a_folder_are_taken_in_turn_by_name(folder: Path) -> None:
    take = Pictures(folder=folder).taken(1, 1)
    assert [take("any") for _ in range(4)] == [b"a.png", b"b.png", b"c.jpg", b"a.png"]


def test_request_n_gets_the_same_picture_whoever_sends_it(folder: Path) -> None:
    alone = Pictures(folder=folder).taken(1, 1)
    first, second = (Pictures(folder=folder).taken(number, 2) for number in (1, 2))
    for _ in range(5):
        assert (first("x"), second("x")) == (alone("x"), alone("x"))


def test_a_large_folder_is_read_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "FOLDER_BYTES", 11)
    assert read_folder(folder) == [b"a.png", b"b.png"]
    monkeypatch.setattr(payloads, "FOLDER_BYTES", 1)
    assert read_folder(folder) == [b"a.png"]


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="has no files; name a folder of pictures"):
        read_folder(tmp_path)
    with pytest.raises(Rejected, match="nowhere: No such file"):
        read_folder(tmp_path / "nowhere")
