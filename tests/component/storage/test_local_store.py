"""The files of a node: whole or not there, and gone when they should be."""

import mmap
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from esg.errors import Fault, Rejected
from esg.storage import local_store
from esg.storage.errors import Missing
from esg.storage.local_store import ENTRY_BYTES, SMALL_BYTES, LocalStore

AWKWARD = [".", "..", "", "a b", "%41", "für alle", "日本語", "x" * 5000, "~", "*", "-rf", "a:b"]
LARGE = os.urandom(3 * SMALL_BYTES + 1)


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1])
def test_local_store_gives_back_what_was_put(local: LocalStore, size: int) -> None:
    content = os.urandom(size)
    local.put("r1", "blur", content)
    assert local.get("r1", "blur") == content


def test_a_view_can_be_put(local: LocalStore) -> None:
    local.put("r1", "blur", memoryview(LARGE)[1:])
    assert local.get("r1", "blur") == LARGE[1:]


def test_a_large_output_is_mapped_and_cannot_be_changed_by_its_reader(local: LocalStore) -> None:
    local.put("r1", "blur", LARGE)
    view = local.get("r1", "blur")
    assert isinstance(view, memoryview)
    assert isinstance(view.obj, mmap.mmap)
    assert view.readonly


def test_a_view_outlives_the_file_and_its_replacement(local: LocalStore) -> None:
    local.put("r1", "blur", LARGE)
    view = local.get("r1", "blur")
    local.put("r1", "blur", LARGE[::-1])
    local.discard("r1")
    assert view == LARGE


def test_the_latest_content_wins(local: LocalStore) -> None:
    local.put("r1", "blur", b"longer than the next")
    local.put("r1", "blur", b"next")
    assert local.get("r1", "blur") == b"next"


@pytest.mark.parametrize(("request_id", "stage"), [("r1", "other"), ("r2", "blur")])
def test_output_that_was_never_put_is_missing_locally(
    local: LocalStore, request_id: str, stage: str
) -> None:
    local.put("r1", "blur", b"x")
    with pytest.raises(Missing, match=f"stage '{stage}' of request '{request_id}'") as e:
        local.get(request_id, stage)
    assert (e.value.request, e.value.stage) == (request_id, stage)


def test_awkward_names_are_kept_apart_and_inside(local: LocalStore, tmp_path: Path) -> None:
    names = [(request, stage) for request in AWKWARD for stage in AWKWARD]
    for request, stage in names:
        local.put(request, stage, f"{request}/{stage}".encode())
    assert [local.get(*name) for name in names] == [f"{r}/{s}".encode() for r, s in names]
    assert names_in(tmp_path) == ["node"]
    for request in AWKWARD:
        local.discard(request)
    assert files(tmp_path) == ["node"]


text = st.text(st.characters(exclude_categories=["Cs"]))


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text, text)
@example("../../escaped", "../../escaped")
@example("a/b", "/etc/passwd")
def test_names_do_not_lead_outside_the_local_store(
    tmp_path: Path, request_id: str, stage: str
) -> None:
    store = LocalStore(tmp_path / "deep" / "node")
    store.put(request_id, stage, b"x")
    assert store.get(request_id, stage) == b"x"
    assert names_in(tmp_path) == ["deep"]
    assert names_in(tmp_path / "deep") == ["node"]
    store.discard(request_id)
    assert names_in(tmp_path / "deep" / "node") == []


def test_discarding_takes_all_of_one_request_and_nothing_else(local: LocalStore) -> None:
    for request in ("r1", "r2"):
        for stage, content in (("a", b"x"), ("b", LARGE)):
            local.put(request, stage, content)
    local.discard("r1")
    local.discard("never-heard-of")
    assert (local.keeps("r1"), local.keeps("r2")) == (False, True)
    assert local.usage() == (1, 1 + len(LARGE))
    assert [local.get("r2", stage) for stage in ("a", "b")] == [b"x", LARGE]
    with pytest.raises(Missing):
        local.get("r1", "a")


def test_discarding_takes_a_requests_folder_and_no_other(
    on_disk: LocalStore, tmp_path: Path
) -> None:
    for request in ("r1", "r2"):
        for stage in ("a", "b"):
            on_disk.put(request, stage, b"x")
    on_disk.discard("r1")
    assert files(tmp_path / "node") == [
        "request-r2",
        "request-r2/stage-a",
        "request-r2/stage-b",
    ]


def test_usage_counts_requests_and_bytes(local: LocalStore) -> None:
    assert local.usage() == (0, 0)
    local.put("r1", "a", b"123")
    local.put("r1", "b", b"4567")
    local.put("r2", "a", b"")
    assert local.usage() == (2, 7)


def test_clearing_takes_what_an_earlier_process_left_and_nothing_that_is_not_ours(
    tmp_path: Path,
) -> None:
    LocalStore(tmp_path).put("r1", "a", LARGE)
    (tmp_path / "writing-1-0").write_bytes(b"hal")
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    store = LocalStore(tmp_path)
    store.clear()
    assert files(tmp_path) == ["thesis.txt"]
    assert store.usage() == (0, 0)


def test_a_reader_never_finds_half_a_file(local: LocalStore) -> None:
    versions = [bytes([n]) * (SMALL_BYTES * 4) for n in range(2)]
    local.put("r1", "a", versions[0])
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            local.put("r1", "a", versions[number % 2])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(local.get("r1", "a") in versions for _ in range(300))
    finally:
        stop.set()
        writer.join()


def test_a_write_that_fails_is_a_fault_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The device that is always full; a file system of our own would need root
    store = LocalStore(tmp_path, 0)

    def full(path: str, mode: str) -> object:
        Path(path).open(mode).close()
        return Path("/dev/full").open("wb")

    monkeypatch.setattr(local_store, "open", full, raising=False)
    with pytest.raises(Fault, match=r"local store .*: 5000 bytes cannot be kept: No space left"):
        store.put("r1", "a", b"x" * 5000)
    assert files(tmp_path) == []


def test_a_store_whose_directory_went_away_says_so(local: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "node").rmdir()
    with pytest.raises(Fault, match="No such file"):
        local.put("r1", "a", LARGE)
    with pytest.raises(Fault, match="cannot be listed"):
        local.usage()
    with pytest.raises(Missing):
        local.get("r1", "a")


def test_directories_of_the_local_store_are_closed_to_others(
    on_disk: LocalStore, tmp_path: Path
) -> None:
    on_disk.put("r1", "a", b"secret")
    store = tmp_path / "node"
    assert [oct(path.stat().st_mode & 0o777) for path in (store, store / "request-r1")] == [
        "0o700",
        "0o700",
    ]


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(Rejected, match="file: cannot be the directory for local data"):
        LocalStore(tmp_path / "file")


def test_the_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Rejected, match="belongs to another user"):
        LocalStore(tmp_path)


# Small outputs in memory.


def test_small_outputs_are_no_files_and_large_ones_are(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("r1", "small", bytes(SMALL_BYTES - 1))
    assert files(tmp_path) == []
    store.put("r1", "large", bytes(SMALL_BYTES))
    assert files(tmp_path) == ["request-r1", "request-r1/stage-large"]


def test_what_there_is_no_room_for_in_memory_is_a_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, memory_bytes=2 * (ENTRY_BYTES + 100))
    for request in ("r1", "r2", "r3"):
        store.put(request, "a", b"x" * 100)
    assert files(tmp_path) == ["request-r3", "request-r3/stage-a"]
    assert store.usage() == (3, 300)
    store.discard("r1")
    store.put("r4", "a", b"x" * 100)
    assert files(tmp_path) == ["request-r3", "request-r3/stage-a"]


def test_room_comes_back_however_an_output_goes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, memory_bytes=ENTRY_BYTES + 100)
    gone = (
        lambda: store.remove("r1", "a"),
        lambda: store.discard("r1"),
        lambda: store.put("r1", "a", b"y" * 100),
        lambda: store.put("r1", "a", LARGE),
        store.clear,
    )
    for go in gone:
        store.put("r1", "a", b"x" * 100)
        assert files(tmp_path) == []
        go()
        store.discard("r1")
    assert store.usage() == (0, 0)


def test_a_small_output_takes_the_place_of_a_large_one_and_the_other_way_round(
    local: LocalStore,
) -> None:
    for content in (LARGE, b"small", LARGE[::-1]):
        local.put("r1", "a", content)
        assert local.get("r1", "a") == content
        assert local.usage() == (1, len(content))
    local.remove("r1", "a")
    assert (local.keeps("r1"), local.usage()) == (False, (0, 0))


def test_a_file_that_another_process_put_is_read_and_discarded(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    LocalStore(tmp_path, 0).put("r1", "a", b"from elsewhere")
    assert store.get("r1", "a") == b"from elsewhere"
    store.discard("r1")
    assert files(tmp_path) == []
