"""Which slices a node has, and the process of the emulated ones.

A node is given the addresses of Triton servers that somebody else runs, or a number of slices to
emulate; those are a child process, which never outlives the invoker.
"""

import asyncio
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from esg.errors import Fault, Rejected
from mesh.embedded_child import tied
from mesh.serving import READY_FILE
from mesh.settings import environment

MAX_EMULATED = 256
START_S = 60.0
STOP_S = 10.0
POLL_S = 0.01

_ADDRESS = re.compile(r"(?P<host>[^\s:,/\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Emulated:
    """So many slices in a process of our own."""

    count: int


@dataclass(frozen=True, slots=True)
class Addresses:
    """Triton servers, a slice each."""

    addresses: tuple[str, ...]


def parse_slices(text: str) -> Emulated | Addresses:
    """What the setting `slices` of an invoker means.

    >>> parse_slices("emulated:7")
    Emulated(count=7)
    >>> parse_slices("gpu0:8001, gpu0:8011")
    Addresses(addresses=('gpu0:8001', 'gpu0:8011'))
    """
    kind, _, number = text.strip().partition(":")
    if kind == "emulated":
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MAX_EMULATED):
            raise Rejected(
                f"invoker.slices: {text!r}: the number of emulated slices is a whole number from "
                f"1 to {MAX_EMULATED}, as in emulated:7"
            )
        return Emulated(int(number))
    addresses = tuple(address.strip() for address in text.split(","))
    for address in addresses:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 1 <= int(match["port"]) <= 65535:
            raise Rejected(
                f"invoker.slices: {address!r} is no address; give emulated:N, or the Triton "
                "servers as host:port,host:port,..."
            )
        if addresses.count(address) > 1:
            raise Rejected(
                f"invoker.slices: {address} is there twice; every slice has a server of its own"
            )
    return Addresses(addresses)


class SliceProcess:
    """Emulated slices that are up, at `addresses`."""

    def __init__(self, process: asyncio.subprocess.Process, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ended(self) -> int:
        """Wait until the process is gone, for whatever reason; its exit code."""
        return await self._process.wait()

    async def stop(self) -> None:
        """Let it finish, but not for ever."""
        await _end(self._process)


async def start_emulated(count: int) -> SliceProcess:
    """Start emulated slices with the settings of this process, and wait until they are up."""
    folder = Path(tempfile.mkdtemp(prefix="esg-slices-"))
    ready = folder / "addresses"
    settings = environment("invoker", {"slices": f"emulated:{count}"})
    process = await asyncio.create_subprocess_exec(
        *tied([sys.executable, "-m", "invoker.emulated"]),
        env={**os.environ, **settings, READY_FILE: str(ready)},
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        addresses = await _addresses(process, ready)
    except BaseException:
        await _end(process)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return SliceProcess(process, addresses)


async def _addresses(process: asyncio.subprocess.Process, ready: Path) -> tuple[str, ...]:
    limit = asyncio.get_running_loop().time() + START_S
    while (text := _text_of(ready)) is None:
        if process.returncode is not None:
            raise Fault(
                f"the emulated slices ended with code {process.returncode} before they were ready; "
                "the log says why"
            )
        if asyncio.get_running_loop().time() > limit:
            raise Fault(f"the emulated slices are not ready after {START_S:g} s")
        await asyncio.sleep(POLL_S)
    return tuple(text.split(","))


def _text_of(file: Path) -> str | None:
    """What is in a small file, once it is there."""
    return file.read_text("utf-8") if file.exists() else None


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()
