"""The CPU part of functions: what handlers give, how many run at a time, and on which cores."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from esg.core.catalog.cpu_use import CpuUse
from esg.errors import Fault, Rejected
from esg.invoker.handlers.handler import (
    Bytes,
    Cores,
    CpuParts,
    InvalidInput,
    JobError,
    check_handler,
)
from esg.invoker.tensors.arrays import INPUT, OUTPUT, byte_strings, plain_input
from tests.support.waiting import LIMIT_S, until

HANDLERS = "tests.support.handlers"
WRAP, WHERE, MEETING, FAILING, SHARING, SHARING_MEETING = (
    f"{HANDLERS}:{name}"
    for name in ("Wrap", "Where", "Meeting", "Failing", "Sharing", "SharingMeeting")
)
WITHIN_JOB = (SHARING, SHARING_MEETING)
CORES = sorted(os.sched_getaffinity(0))
needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="about several cores")


@pytest.fixture
async def cpu() -> AsyncIterator[CpuParts]:
    """As many vCPUs as there are cores."""
    parts = CpuParts(len(CORES), LIMIT_S, within_job=WITHIN_JOB)
    yield parts
    parts.close()


@pytest.fixture
async def crowded() -> AsyncIterator[CpuParts]:
    """More vCPUs than there are cores."""
    parts = CpuParts(8 * len(CORES), LIMIT_S, within_job=WITHIN_JOB)
    yield parts
    parts.close()


async def prepared(
    cpu: CpuParts, handler: str, jobs: Sequence[Sequence[Bytes]], vcpus: int
) -> list[list[bytes]]:
    """What a handler of byte strings made of each job's inputs."""
    found: list[list[bytes]] = []
    for tensors in await cpu.prepare(handler, jobs, vcpus):
        assert not isinstance(tensors, JobError), tensors
        found.append(tensors[INPUT].tolist())
    return found


async def places(cpu: CpuParts, jobs: int, vcpus: int) -> list[tuple[str, str]]:
    """For every job the worker it ran in, and the cores it might use."""
    found = await prepared(cpu, WHERE, [[b""]] * jobs, vcpus)
    worker_and_cores = (inputs[0].decode().partition(" ") for inputs in found)
    return [(worker, cores) for worker, _, cores in worker_and_cores]


def guest(folder: Path, name: int, *, enough: int) -> list[bytes]:
    """The inputs of one who waits in this directory until enough are there."""
    return [str(word).encode() for word in (folder, enough, name)]


def is_gone(pid: str) -> bool:
    """Ended, though perhaps not yet buried by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_every_job_gets_what_its_handler_makes_of_it_in_order(cpu: CpuParts) -> None:
    jobs: list[list[Bytes]] = [[f"{number}".encode(), memoryview(b"x")] for number in range(20)]
    assert await prepared(cpu, WRAP, jobs, 1) == [
        [f"<{number}>".encode(), b"<x>"] for number in range(20)
    ]
    outputs = [f"{number}".encode() for number in range(20)]
    given = [({OUTPUT: byte_strings([output])}, [memoryview(b"input")]) for output in outputs]
    assert await cpu.finish(WRAP, given, 1) == [b"[" + output + b"]" for output in outputs]


async def test_a_handler_in_a_file_gets_arrays_through_and_inputs_back(
    cpu: CpuParts, tmp_path: Path
) -> None:
    (tmp_path / "handler.py").write_text(
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "@dataclass\n"
        "class Twice:\n"
        "    factor: int = 2\n"
        "    def prepare(self, inputs):\n"
        "        numbers = np.array([float(content) for content in inputs], np.float32)\n"
        "        return {'X': numbers[::-1], 'NAME': np.array(['a', 'b'])}\n"
        "    def finish(self, outputs, inputs):\n"
        "        return f'{self.factor} * {inputs[0].decode()} = {outputs[\"Y\"][0]:g}'.encode()\n"
    )
    handler = f"{tmp_path}/handler.py:Twice"
    check_handler(handler)
    (tensors,) = await cpu.prepare(handler, [[b"1.5", b"4"]], 1)
    assert not isinstance(tensors, JobError)
    assert tensors["X"].tolist() == [4.0, 1.5]
    assert tensors["X"].flags.c_contiguous
    assert tensors["NAME"].tolist() == [b"a", b"b"]
    made = {"Y": np.array([3.0], np.float32)}
    assert await cpu.finish(handler, [(made, [b"1.5"])], 1) == [b"2 * 1.5 = 3"]


# attack: H2
async def test_input_that_a_handler_turns_down_is_invalid_in_the_handlers_own_words(
    cpu: CpuParts,
) -> None:
    first, invalid, last = await cpu.prepare(FAILING, [[b"fine"], [b"refuse"], [b"fine"]], 1)
    assert isinstance(invalid, InvalidInput)
    assert str(invalid) == "no picture; send one"
    assert not isinstance(first, JobError)
    assert not isinstance(last, JobError)


async def test_a_handler_that_cannot_be_made_is_no_fault_of_the_input(
    cpu: CpuParts, tmp_path: Path
) -> None:
    (tmp_path / "handler.py").write_text(
        "from esg.errors import Rejected\n"
        "class Lacking:\n"
        "    def __init__(self): raise Rejected('no weights; fetch them')\n"
        "    def prepare(self, inputs): ...\n"
        "    def finish(self, outputs, inputs): ...\n"
    )
    handler = f"{tmp_path}/handler.py:Lacking"
    (fault,) = await cpu.prepare(handler, [[b"fine"]], 1)
    assert isinstance(fault, Fault)
    assert str(fault) == f"handler {handler}: no weights; fetch them"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (b"raise", "ValueError: not a picture"),
        (b"raise with an address", "ValueError: not <_io.BytesIO object>"),
        (b"raise something odd", "Odd: this and that"),
        (b"exit", "SystemExit: enough"),
        (b"text", "TypeError: it gave str where arrays by the model's inputs are wanted"),
        (b"list", "TypeError: it gave list for 'X', where an array is wanted"),
        (b"odd numbers", "TypeError: 'X' has elements of type complex64, unknown to Triton"),
    ],
)
async def test_handler_error_is_a_fault_of_that_job_alone(
    cpu: CpuParts, job: bytes, words: str
) -> None:
    first, fault, last = await cpu.prepare(FAILING, [[b"fine"], [job], [b"fine"]], 1)
    assert isinstance(fault, Fault)
    assert str(fault) == f"handler {FAILING}: prepare: {words}"
    assert not isinstance(first, Fault)
    assert not isinstance(last, Fault)


async def test_an_output_that_is_none_is_a_fault(cpu: CpuParts) -> None:
    (fault,) = await cpu.finish(FAILING, [(plain_input([b"x"]), [b"nothing"])], 1)
    assert isinstance(fault, Fault)
    assert "finish: TypeError: it gave NoneType where bytes are wanted" in str(fault)


async def test_a_handler_that_cannot_be_made_is_a_fault(cpu: CpuParts) -> None:
    check_handler(f"{HANDLERS}:Unmade")
    (fault,) = await cpu.prepare(f"{HANDLERS}:Unmade", [[b"x"]], 1)
    assert isinstance(fault, Fault)
    assert "Unmade: prepare: FileNotFoundError: no weights" in str(fault)


async def test_a_worker_that_dies_fails_its_job_alone_and_the_next_call_has_another(
    cpu: CpuParts,
) -> None:
    first, fault, last = await cpu.prepare(FAILING, [[b"fine"], [b"die"], [b"fine"]], 1)
    assert not isinstance(first, Fault)
    assert isinstance(fault, Fault)
    assert str(fault).startswith(f"handler {FAILING}: prepare: its worker died; ")
    assert not isinstance(last, Fault)
    assert await prepared(cpu, WRAP, [[b"x"]], 1) == [[b"<x>"]]


@needs_two_cores
async def test_a_worker_that_dies_is_nothing_to_the_other_ones(
    cpu: CpuParts, tmp_path: Path
) -> None:
    meeting = asyncio.create_task(prepared(cpu, MEETING, [guest(tmp_path, 1, enough=2)], 1))
    await until(lambda: (tmp_path / "came-1").exists())
    (fault,) = await cpu.prepare(FAILING, [[b"die"]], 1)
    assert isinstance(fault, Fault)
    (tmp_path / "came-2").touch()
    assert await meeting == [[b"1"]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no.such:Handler", "No module named 'no'"),
        (f"{HANDLERS}:Nobody", "has no attribute 'Nobody'"),
        (HANDLERS, "Empty module name"),
        ("/no/such/file.py:Handler", "No such file or directory"),
        (":Handler", "Empty module name"),
        (".near:Handler", "relative import"),
    ],
)
async def test_a_handler_that_is_not_there_is_refused_with_advice(
    cpu: CpuParts, name: str, words: str
) -> None:
    with pytest.raises(Rejected) as caught:
        check_handler(name)
    assert str(caught.value).startswith(f"handler {name!r}: ")
    assert words in str(caught.value)
    assert str(caught.value).endswith(", importable by the invoker")
    with pytest.raises(Rejected, match="it must be module:Class or file"):
        await cpu.prepare(name, [[b"x"]], 1)


async def test_a_file_that_ends_the_process_ends_no_invoker(cpu: CpuParts, tmp_path: Path) -> None:
    file = tmp_path / "handler.py"
    file.write_text("import sys\nsys.exit(3)\n", "utf-8")
    with pytest.raises(Rejected, match=r"it ends the process; it must be module:Class or file"):
        check_handler(f"{file}:Handler")
    with pytest.raises(Rejected, match=r"it ends the process"):
        await cpu.prepare(f"{file}:Handler", [[b"x"]], 1)


def test_a_handler_without_its_methods_is_refused() -> None:
    with pytest.raises(Rejected, match="Half': it needs the methods prepare and finish"):
        check_handler(f"{HANDLERS}:Half")
    check_handler(WRAP)


def test_a_core_has_one_user_at_a_time() -> None:
    cores = Cores(4, [0, 2, 4, 6, 8])
    first, second = cores.take(3), cores.take(1)
    assert sorted(first + second) == [0, 2, 4, 6]
    assert cores.take(1) == ()
    cores.give_back(first)
    assert cores.take(4) == first
    cores.give_back(second)
    assert cores.take(1) == second


def test_cores_are_nobodys_own_where_there_are_fewer_than_vcpus() -> None:
    cores = Cores(4, [0, 1, 2])
    assert cores.take(2) == ()
    cores.give_back(())
    assert cores.take(2) == ()


async def test_job_has_a_core_of_its_own_where_there_are_enough(cpu: CpuParts) -> None:
    for vcpus in range(1, len(CORES) + 1):
        found = {cores for _, cores in await places(cpu, 4 * vcpus, vcpus)}
        assert found <= {f"[{core}]" for core in CORES[:vcpus]}


@needs_two_cores
async def test_tasks_at_the_same_time_are_on_different_cores(cpu: CpuParts, tmp_path: Path) -> None:
    meeting = asyncio.create_task(prepared(cpu, MEETING, [guest(tmp_path, 1, enough=2)], 1))
    await until(lambda: (tmp_path / "came-1").exists())
    assert {cores for _, cores in await places(cpu, 3, 1)} == {f"[{CORES[1]}]"}
    (tmp_path / "came-2").touch()
    await meeting
    assert {cores for _, cores in await places(cpu, 3, 1)} == {f"[{CORES[0]}]"}


async def test_job_may_use_any_core_where_there_are_too_few(crowded: CpuParts) -> None:
    found = await places(crowded, 20, 8 * len(CORES))
    assert {cores for _, cores in found} == {str(CORES)}
    assert len({worker for worker, _ in found}) <= len(CORES)


@needs_two_cores
async def test_a_task_has_no_more_jobs_under_way_than_vcpus(cpu: CpuParts, tmp_path: Path) -> None:
    guests = [guest(tmp_path, number, enough=2) for number in (1, 2)]
    meeting = asyncio.create_task(prepared(cpu, MEETING, guests, 1))
    await until(lambda: (tmp_path / "came-1").exists())
    await places(cpu, 5, 1)  # a worker is free, and takes first what was given first
    assert not (tmp_path / "came-2").exists()
    (tmp_path / "came-3").touch()
    assert await meeting == [[b"1"], [b"2"]]


@needs_two_cores
async def test_a_task_has_as_many_jobs_under_way_as_vcpus(cpu: CpuParts, tmp_path: Path) -> None:
    guests = [guest(tmp_path, number, enough=2) for number in (1, 2)]
    assert await prepared(cpu, MEETING, guests, 2) == [[b"1"], [b"2"]]


@needs_two_cores
async def test_a_handler_of_several_cores_has_all_that_were_granted_and_is_told_how_many(
    cpu: CpuParts,
) -> None:
    """Its worker's own thread, and one that was there when the task had fewer of them."""
    for vcpus in (1, 2, 1):
        may_use = CORES[:vcpus]
        told = f"{vcpus} {may_use} {may_use}".encode()
        assert await prepared(cpu, SHARING, [[b"x"]] * 3, vcpus) == [[told]] * 3
        made = [({OUTPUT: byte_strings([b"x"])}, [b"x"])]
        assert await cpu.finish(SHARING, made, vcpus) == [told]


async def test_a_handler_of_several_cores_is_told_of_no_more_than_there_are(
    crowded: CpuParts,
) -> None:
    ((told,),) = await prepared(crowded, SHARING, [[b"x"]], 8 * len(CORES))
    assert told == f"{len(CORES)} {CORES} {CORES}".encode()


@needs_two_cores
async def test_a_handler_of_several_cores_has_one_job_at_a_time(
    cpu: CpuParts, tmp_path: Path
) -> None:
    guests = [guest(tmp_path, number, enough=2) for number in (1, 2)]
    meeting = asyncio.create_task(prepared(cpu, SHARING_MEETING, guests, 2))
    await until(lambda: (tmp_path / "came-1").exists())
    await prepared(cpu, WRAP, [[b"x"]], 1)  # a worker is free, and takes first what came first
    assert not (tmp_path / "came-2").exists()
    (tmp_path / "came-3").touch()
    assert await meeting == [[b"1"], [b"2"]]


def test_a_handler_that_cannot_be_told_of_its_cores_is_refused() -> None:
    check_handler(SHARING, CpuUse.WITHIN_JOB)
    with pytest.raises(Rejected) as caught:
        check_handler(WRAP, CpuUse.WITHIN_JOB)
    assert str(caught.value) == (
        f'handler {WRAP!r}: with cpu = "within_job", prepare and finish are told how many cores '
        'they may use; let both have a parameter `cores`, or say cpu = "across_jobs"'
    )


async def test_a_call_that_is_given_up_gives_its_core_back(cpu: CpuParts, tmp_path: Path) -> None:
    guests = [guest(tmp_path, number, enough=2) for number in (1, 2)]
    meeting = asyncio.create_task(prepared(cpu, MEETING, guests, 1))
    await until(lambda: (tmp_path / "came-1").exists())
    meeting.cancel()
    await asyncio.gather(meeting, return_exceptions=True)
    (tmp_path / "came-3").touch()  # so that the worker is free as well
    assert {cores for _, cores in await places(cpu, 3, 1)} == {f"[{CORES[0]}]"}
    assert not (tmp_path / "came-2").exists()


async def test_calls_that_are_given_up_leave_no_worker_behind(
    cpu: CpuParts, tmp_path: Path
) -> None:
    names = range(len(CORES))
    guests = [guest(tmp_path, name, enough=10**6) for name in names]  # who wait for ever
    meeting = asyncio.create_task(prepared(cpu, MEETING, guests, len(CORES)))
    await until(lambda: all((tmp_path / f"came-{name}").exists() for name in names))
    meeting.cancel()
    await asyncio.gather(meeting, return_exceptions=True)
    async with asyncio.timeout(LIMIT_S):
        assert await prepared(cpu, WRAP, [[b"x"]], 1) == [[b"<x>"]]


async def test_a_handler_that_never_returns_is_a_fault_of_each_job(tmp_path: Path) -> None:
    cpu = CpuParts(1, 0.1)
    try:
        found = await cpu.prepare(MEETING, [guest(tmp_path, 1, enough=10**6)] * 2, 1)
    finally:
        cpu.close()
    words = (
        f"handler {MEETING}: prepare: it did not return within 0.1 s and was ended; "
        "if it needs longer, raise invoker.handler_timeout_s"
    )
    assert [str(fault) for fault in found] == [words, words]


async def test_closing_ends_a_handler_that_never_returns(cpu: CpuParts, tmp_path: Path) -> None:
    ((worker, _),) = await places(cpu, 1, 1)
    guests = [guest(tmp_path, number, enough=10**6) for number in (1, 2)]
    meeting = asyncio.create_task(cpu.prepare(MEETING, guests, 1))
    await until(lambda: (tmp_path / "came-1").exists())
    cpu.close()
    assert ["its worker died" in str(fault) for fault in await meeting] == [True, True]
    await until(lambda: is_gone(worker))
    assert not (tmp_path / "came-2").exists()


async def test_workers_hear_no_ctrl_c_and_do_not_outlive_the_invoker() -> None:
    program = (
        "import asyncio\n"
        "from esg.invoker.handlers.handler import CpuParts\n"
        "async def main():\n"
        "    cpu = CpuParts(1, 60.0)\n"
        f"    found = await cpu.prepare('{WHERE}', [[b'']], 1)\n"
        "    print(found[0]['INPUT'][0].decode().split()[0], flush=True)\n"
        "    await asyncio.to_thread(input)\n"
        f"    (found,) = await cpu.prepare('{WRAP}', [[b'x']], 1)\n"
        "    print(found['INPUT'].tolist(), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    pipe = asyncio.subprocess.PIPE
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), stdin=pipe, stdout=pipe
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    async with asyncio.timeout(LIMIT_S):
        worker = (await parent.stdout.readline()).decode().strip()
        os.kill(int(worker), signal.SIGINT)
        parent.stdin.write(b"\n")
        assert await parent.stdout.readline() == b"[b'<x>']\n"
        assert not is_gone(worker)
        parent.kill()
        await parent.wait()
    await until(lambda: is_gone(worker))
