"""Which slices a node has, and the life of the process that emulates them."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from stat import S_IMODE

import pytest

from esg.errors import Fault, Rejected
from esg.invoker.slices.client import SliceClient
from esg.invoker.tensors.arrays import plain_input
from esg.runtime.slice_setting import Addresses, Auto, Cpu, Emulated, Gpu, Mig, parse_slices
from tests.support.emulated_process import emulated
from tests.support.listening import tcp_ports
from tests.support.waiting import LIMIT_S, until


def is_gone(pid: int) -> bool:
    """Ended, though perhaps not yet buried by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("emulated:1", Emulated("1")),
        ("emulated:4g.40gb+3g.40gb,7", Emulated("4g.40gb+3g.40gb,7")),
        ("emulated:256 ", Emulated("256")),
        ("cpu:4", Cpu("4")),
        ("cpu:cpu-2+2xcpu-1", Cpu("cpu-2+2xcpu-1")),
        (" mig", Mig()),
        ("gpu", Gpu()),
        ("auto ", Auto()),
        ("gpu:8001", Addresses(("gpu:8001",))),
        ("127.0.0.1:8001", Addresses(("127.0.0.1:8001",))),
        ("triton:80", Addresses(("triton:80",))),
        ("3g.40gb@a:80,b:80", Addresses(("a:80", "b:80"), ("3g.40gb", ""))),
        ("unix:/run/a, unix:/run/b:1", Addresses(("unix:/run/a", "unix:/run/b:1"))),
        ("gpu-0.lab:8001,[::1]:8011", Addresses(("gpu-0.lab:8001", "[::1]:8011"))),
    ],
)
def test_slices_are_of_six_kinds(text: str, meaning: object) -> None:
    assert parse_slices(text) == meaning


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is no address; give auto, emulated:N, cpu:N, mig, gpu, or"),
        ("emulated", "as in emulated:7"),
        ("emulated:", "as in emulated:7"),
        ("emulated:0", "as in emulated:7"),
        ("emulated:-1", "as in emulated:7"),
        ("emulated:257", "from 1 to 256"),
        ("emulated:²", "as in emulated:7"),
        ("cpu:0", "as in cpu:7"),
        ("cpu:x", "as in cpu:cpu-2+2xcpu-1"),
        ("cpu:3g.40gb", "as in cpu:cpu-2+2xcpu-1"),
        ("cpu:cpu-0", "from 1 to 256"),
        ("emulated:7,0", "from 1 to 256"),
        ("emulated:4g.40gb+", "as in emulated:4g.40gb+3g.40gb"),
        ("emulated:200+57", "from 1 to 256"),
        ("?@a:80", "'?' is no kind of slices; write it before the address, as in 3g.40gb@a:80"),
        ("mig:7", "say mig; every"),
        ("gpu:2", "say gpu; every GPU of this host that is not in MIG mode"),
        ("auto:0", "say auto; slices are what this host has"),
        ("tpu:2", "unknown slices 'tpu:2'; known: auto, emulated:N, cpu:N, mig, gpu, or Triton"),
        ("tpu:0", "unknown slices 'tpu:0'"),
        ("gpu0", "'gpu0' is no address"),
        ("gpu0:", "'gpu0:' is no address"),
        (":8001", "':8001' is no address"),
        ("gpu0:0", "'gpu0:0' is no address"),
        ("gpu0:65536", "'gpu0:65536' is no address"),
        ("http://gpu0:8001", "'http://gpu0:8001' is no address"),
        ("gpu0:8001,", "'' is no address"),
        ("gpu0:8001,gpu0:8001", "gpu0:8001 is there twice"),
    ],
)
def test_malformed_slices_are_refused_with_advice(text: str, words: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_slices(text)
    assert str(caught.value).startswith("invoker.slices: ")
    assert words in str(caught.value)


async def test_every_slice_has_an_address_and_the_process_ends_when_told(catalog: Path) -> None:
    async with emulated(3, catalog) as process:
        assert len(set(process.addresses)) == 3
        for address in process.addresses:
            slice_ = SliceClient(address)
            await slice_.ready(LIMIT_S)
            await slice_.close()
    assert await process.ended() == 0
    assert is_gone(process.pid)


async def test_slices_listen_where_only_their_user_can_call_them(catalog: Path) -> None:
    # attack: G1
    async with emulated(2, catalog) as process:
        assert tcp_ports(process.pid) == []
        for address in process.addresses:
            assert mode(Path(address.removeprefix("unix:")).parent) == 0o700


async def test_stopping_finishes_what_is_under_way(catalog: Path) -> None:
    async with emulated(1, catalog, time_scale="0.0001", drain_s="60") as process:
        slice_ = SliceClient(process.addresses[0])
        await slice_.load("endless")  # 0.18 s at this scale
        parameters: dict[str, int | str] = {
            "esg_batch": 1,
            "esg_vcpus": 1,
            "esg_vgpus": 1,
            "esg_key": "r1/x",
        }
        running = asyncio.create_task(
            slice_.infer("endless", [plain_input([b"x"])], parameters=parameters, timeout_s=LIMIT_S)
        )
        await asyncio.sleep(0)
        await slice_.ready(LIMIT_S)  # by now the call is in: one connection keeps the order
        await process.stop()
    assert len(await running) == 1
    await slice_.close()


async def test_a_warm_start_begins_with_the_models_that_fit(catalog: Path) -> None:
    async with emulated(2, catalog, invoker_warm_start="true") as process:
        for address in process.addresses:
            slice_ = SliceClient(address)
            assert await slice_.resident() == ["endless", "heavy", "large"]  # 900 of 1000 MB
            await slice_.close()


async def test_a_larger_slice_begins_with_more(catalog: Path) -> None:
    settings = {"invoker_warm_start": "true", "invoker_slice_memory_mb": "1500"}
    async with emulated(1, catalog, **settings) as process:
        slice_ = SliceClient(process.addresses[0])
        assert await slice_.resident() == ["endless", "heavy", "large", "other", "quick"]
        await slice_.close()


async def test_a_process_that_cannot_start_is_a_fault(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Fault, match="ended with code 2 before it was ready"):
        async with emulated(1, tmp_path / "none.toml"):
            pass
    assert "none.toml: no such file" in capfd.readouterr().err


async def test_end_of_the_slice_process_is_heard(catalog: Path) -> None:
    async with emulated(1, catalog) as process:
        os.kill(process.pid, signal.SIGKILL)
        assert await process.ended() == -signal.SIGKILL


async def test_a_process_group_is_ended_once_because_its_number_may_be_given_to_a_stranger(
    catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: killed.append(group))
    async with emulated(1, catalog) as process:
        first = process.pid
        for _ in range(2):  # as when it is brought back in vain, again and again
            await process.kill()
        assert killed == [first]
        await process.start()
        second = process.pid
    assert killed == [first, second]


async def test_the_process_does_not_outlive_the_one_that_started_it(catalog: Path) -> None:
    program = (
        "import asyncio, esg.invoker.slices.directory as d, esg.invoker.slices.processes as s\n"
        "from esg.runtime.slice_setting import Emulated\n"
        "async def main():\n"
        "    with d.slice_directory() as directory:\n"
        "        process = s.EmulatedSlices(Emulated('1'), directory)\n"
        "        await process.start()\n"
        "        print(process.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={**os.environ, "ESG_CATALOG": str(catalog)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert not is_gone(child)
    parent.kill()
    await parent.wait()

    async def gone() -> bool:
        return is_gone(child)

    try:
        await until(gone)
    finally:
        if not is_gone(child):
            os.kill(child, signal.SIGKILL)


async def test_emulator_of_slices_refuses_slices_with_addresses(
    catalog: Path, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "esg.invoker.emulated", str(tmp_path)),
        env={**os.environ, "ESG_CATALOG": str(catalog), "ESG_INVOKER_SLICES": "gpu0:8001"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert "leaves nothing to emulate; say emulated:N" in said.decode()
