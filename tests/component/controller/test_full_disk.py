"""A journal's disk without room: a state that passes, and in which nothing is lost."""

import asyncio
import errno
import os
from io import RawIOBase
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from esg.controller.durability import journal as journal_module
from esg.controller.durability import reserve as journal_reserve
from esg.controller.durability import segment_writer
from esg.controller.durability.journal import Journal, NoRoom
from esg.controller.durability.reserve import JournalReserve
from esg.core.journal.format import Header, read_segment, snapshot_line
from esg.core.messages.events import RequestArrived
from esg.core.scheduler.settings import SchedulerSettings
from esg.errors import Fault
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.journal_files import read_lines
from esg.runtime.rpc.channels import channel
from esg.runtime.settings import ControllerSettings
from tests.support.controller_peers import (
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    put_application,
    refusal_code,
    running_controller,
    submission,
)
from tests.support.waiting import names, until
from tests.support.written_journal import made_durable

# attack: D1

HEADER = Header(catalog="c0ffee", settings=SchedulerSettings())
RESERVE = 2000
LINE_BYTES = 300
"""More than an entry of these tests takes."""


class Disk:
    """One that has room for so many bytes more."""

    def __init__(self) -> None:
        self.room = 1_000_000
        self.refused = 0

    def take(self, size: int) -> None:
        if size > self.room:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= size

    def write_all(self, file: RawIOBase, data: bytes) -> None:
        try:
            self.take(len(data))
        except OSError:
            file.write(data[: self.room])  # as much as fits, which then has to go again
            raise
        file.write(data)

    def allocate(self, file: int, start: int, size: int) -> None:
        self.take(size)
        os.ftruncate(file, size)
        self.room += size - RESERVE

    def give_away(self, reserve: JournalReserve) -> bool:
        was_there = give_away(reserve)
        self.room += RESERVE * was_there
        return was_there


give_away = JournalReserve.give_away


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(segment_writer, "write_all", made.write_all)
    monkeypatch.setattr(journal_module, "RETRY_S", 0.001)
    monkeypatch.setattr(journal_reserve, "RESERVE_BYTES", RESERVE)
    monkeypatch.setattr(journal_reserve, "SPARE_BYTES", RESERVE)
    monkeypatch.setattr(os, "posix_fallocate", made.allocate)
    monkeypatch.setattr(JournalReserve, "give_away", lambda reserve: made.give_away(reserve))
    return made


def begun(folder: Path, **settings: Any) -> Journal:
    journal = Journal(folder, ControllerSettings(**settings))
    journal.begin(HEADER, lambda: lambda: snapshot_line("{}", "{}", 1))
    return journal


def handed_over(journal: Journal, number: int) -> asyncio.Future[None]:
    journal.begin_group()
    journal.append(number, RequestArrived(request=f"r{number}", application="thumb"), [])
    return made_durable(journal)


def entries(path: Path) -> list[int]:
    return [entry.now_us for entry in read_segment(read_lines(path)).entries]


@pytest.mark.parametrize("sync", [True, False])
async def test_what_is_under_way_is_written_into_the_reserve(
    tmp_path: Path, sync: bool, disk: Disk
) -> None:
    journal = begun(tmp_path, sync=sync)
    assert not journal.full
    disk.room = 10
    await handed_over(journal, 0)
    assert journal.full
    await handed_over(journal, 1)
    assert entries(tmp_path / "00000001.journal") == [0, 1]
    assert names(tmp_path) == {"00000001.journal"}
    journal.close()


@pytest.mark.parametrize("sync", [True, False])
async def test_a_group_without_room_waits_and_is_whole_when_there_is_some(
    tmp_path: Path, sync: bool, disk: Disk
) -> None:
    journal = begun(tmp_path, sync=sync)
    await handed_over(journal, 0)
    disk.room = 10 - RESERVE  # nothing is left of the reserve either
    waiting = handed_over(journal, 1)
    await until(lambda: disk.refused > 5)
    assert not waiting.done()
    assert journal.full
    disk.room = LINE_BYTES
    await waiting
    assert journal.full  # there is room, but not for a reserve
    disk.room = 3 * RESERVE
    await until(lambda: not journal.full)
    await handed_over(journal, 2)
    assert entries(tmp_path / "00000001.journal") == [0, 1, 2]
    assert names(tmp_path) == {"00000001.journal", "reserve"}
    journal.close()


async def test_a_controller_that_starts_on_a_full_disk_begins_when_there_is_room(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.room = 10
    journal = begun(tmp_path)
    assert journal.full
    assert "the journal's disk is full" in caplog.messages
    assert names(tmp_path) == set()
    first = handed_over(journal, 0)
    await until(lambda: disk.refused > 10)
    assert not first.done()
    disk.room = 1_000_000
    await first
    await until(lambda: not journal.full)
    assert entries(tmp_path / "00000001.journal") == [0]
    journal.close()


async def test_a_controller_that_starts_on_a_full_disk_uses_the_reserve_of_the_one_before(
    tmp_path: Path, disk: Disk
) -> None:
    begun(tmp_path).close()
    disk.room = 10
    journal = begun(tmp_path)
    assert journal.full
    await handed_over(journal, 0)
    assert entries(tmp_path / "00000002.journal") == [0]
    journal.close()


async def test_no_segment_is_begun_on_a_full_disk(tmp_path: Path, disk: Disk) -> None:
    journal = begun(tmp_path, segment_mb=0.0001)
    disk.room = 10
    for number in range(4):
        await handed_over(journal, number)
    assert journal.full
    assert entries(tmp_path / "00000001.journal") == [0, 1, 2, 3]
    disk.room = 1_000_000
    await until(lambda: not journal.full)
    await handed_over(journal, 4)
    assert entries(tmp_path / "00000002.journal") == [4]
    journal.close()


async def test_a_group_that_waits_fails_when_the_controller_is_told_to_stop(
    tmp_path: Path, disk: Disk
) -> None:
    journal = begun(tmp_path)
    disk.room = -RESERVE
    waiting = handed_over(journal, 0)
    await until(lambda: disk.refused > 3)
    journal.stop_waiting()
    with pytest.raises(NoRoom, match="no room for it; nothing was done that it does not know of"):
        await waiting
    journal.close()
    assert entries(tmp_path / "00000001.journal") == []


async def test_a_controller_without_room_ends_what_is_under_way_and_takes_nothing_new(
    tmp_path: Path, disk: Disk
) -> None:
    async with (
        running_controller(journal=str(tmp_path)) as controller,
        invoker(controller) as node,
        gateway(controller) as door,
        channel(controller.address) as to_controller,
    ):
        stub = wire_grpc.ControllerStub(to_controller)

        async def told() -> str:
            (status,) = [s async for s in stub.WatchMesh(wire.WatchMeshRequest())]
            return str(status.refusing)

        def metrics() -> bytes:
            registry = CollectorRegistry()
            registry.register(controller.live.metrics)
            return generate_latest(registry)

        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
        assert await told() == ""
        assert b"esg_journal_full 0.0" in metrics()

        disk.room = 10
        node.say(finished(order.start.task))
        (answer,) = await door.hears("result")
        assert answer.request_id == "r1"
        door.say(submission("r2"))
        (note,) = await door.hears("refused")
        assert refusal_code(note) is grpc.StatusCode.UNAVAILABLE
        assert "the journal's disk is full" in note.refused.message
        for call in (
            stub.DeleteApplication(wire.DeleteApplicationRequest(name="thumb")),
            put_application(controller.address, name="new", stages=[model.Stage(function="label")]),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match="the journal's disk is full"):
                await call
        assert "the journal's disk is full" in await told()
        assert b"esg_journal_full 1.0" in metrics()

        disk.room = 1_000_000
        await until(lambda: not controller.live.refusing())
        door.say(submission("r3"))
        assert [n.request_id for n in await door.hears("accepted", 2)] == ["r1", "r3"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_a_sync_that_failed_is_not_tried_again(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = 0

    def failing(handle: int) -> None:
        nonlocal synced
        synced += 1
        raise OSError(number, "it went wrong")

    journal = begun(tmp_path)
    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(Fault, match="cannot be written: it went wrong") as failed:
        await handed_over(journal, 0)
    assert not isinstance(failed.value, NoRoom)
    assert synced == 1
    journal.close()
