"""CPU parts that tests have run in workers."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np

from esg.errors import Rejected
from esg.invoker.tensors.arrays import Tensors, plain_input, plain_output


class Wrap:
    """Leaves its mark on what it was given."""

    def prepare(self, inputs: Sequence[bytes]) -> Tensors:
        return plain_input([b"<" + content + b">" for content in inputs])

    def finish(self, outputs: Tensors, inputs: Sequence[bytes]) -> bytes:
        return b"[" + plain_output(outputs) + b"]"


class Where:
    """Says where it runs: the worker, and the cores that it may use."""

    def prepare(self, inputs: Sequence[bytes]) -> Tensors:
        return plain_input([f"{os.getpid()} {sorted(os.sched_getaffinity(0))}".encode()])

    def finish(self, outputs: Tensors, inputs: Sequence[bytes]) -> bytes:
        return plain_output(outputs)


class Meeting:
    """Waits in a directory until enough have come."""

    def prepare(self, inputs: Sequence[bytes]) -> Tensors:
        folder, enough, name = (content.decode() for content in inputs)
        (Path(folder) / f"came-{name}").touch()
        while len(list(Path(folder).iterdir())) < int(enough):
            time.sleep(0.001)
        return plain_input([name.encode()])

    def finish(self, outputs: Tensors, inputs: Sequence[bytes]) -> bytes:
        return plain_output(outputs)


class Gated:
    """Goes on when it is let: its input names a folder, where each method leaves a file as it
    begins, and waits for another."""

    def prepare(self, inputs: Sequence[bytes]) -> Tensors:
        self._pass(inputs, "prepare")
        return plain_input(inputs)

    def finish(self, outputs: Tensors, inputs: Sequence[bytes]) -> bytes:
        self._pass(inputs, "finish")
        return plain_output(outputs)

    def _pass(self, inputs: Sequence[bytes], method: str) -> None:
        folder = Path(inputs[0].decode())
        (folder / f"in-{method}").touch()
        while not (folder / f"past-{method}").exists():
            time.sleep(0.001)


class Sharing:
    """Does one job with several cores; says how many it was told of, and which may be used: by
    itself, and by a thread that it has kept from its first job on."""

    def __init__(self) -> None:
        self._kept = ThreadPoolExecutor(1)

    def prepare(self, inputs: Sequence[bytes], *, cores: int) -> Tensors:
        return plain_input([self._told(cores)])

    def finish(self, outputs: Tensors, inputs: Sequence[bytes], *, cores: int) -> bytes:
        return self._told(cores)

    def _told(self, cores: int) -> bytes:
        own = sorted(os.sched_getaffinity(0))
        kept = sorted(self._kept.submit(os.sched_getaffinity, 0).result())
        return f"{cores} {own} {kept}".encode()


class SharingMeeting(Meeting):
    """Waits with all cores that there are."""

    def prepare(self, inputs: Sequence[bytes], *, cores: int = 0) -> Tensors:
        return super().prepare(inputs)

    def finish(self, outputs: Tensors, inputs: Sequence[bytes], *, cores: int = 0) -> bytes:
        return super().finish(outputs, inputs)


class Odd(Exception):
    """One that cannot be unpickled."""

    def __init__(self, this: str, that: str) -> None:
        super().__init__(f"{this} and {that}")


class Failing:
    """Does what its input says."""

    def prepare(self, inputs: Sequence[bytes]) -> Tensors:
        match inputs[0]:
            case b"raise":
                raise ValueError("not a picture")
            case b"raise with an address":
                raise ValueError(f"not {BytesIO()}")
            case b"refuse":
                raise Rejected("no picture; send one")
            case b"raise something odd":
                raise Odd("this", "that")
            case b"exit":
                sys.exit("enough")
            case b"die":
                os.kill(os.getpid(), signal.SIGKILL)
                raise AssertionError("still alive")
            case b"text":
                return "text"  # type: ignore[return-value]
            case b"list":
                return {"X": [1, 2]}  # type: ignore[dict-item]
            case b"odd numbers":
                return {"X": np.zeros(1, np.complex64)}
            case _:
                return plain_input(inputs)

    def finish(self, outputs: Tensors, inputs: Sequence[bytes]) -> bytes:
        if inputs == [b"nothing"]:
            return None  # type: ignore[return-value]
        return plain_output(outputs)


class Unmade:
    """Cannot even be made."""

    def __init__(self) -> None:
        raise FileNotFoundError("no weights")

    def prepare(self, inputs: Sequence[bytes]) -> Tensors:
        return plain_input(inputs)

    def finish(self, outputs: Tensors, inputs: Sequence[bytes]) -> bytes:
        return plain_output(outputs)


class Half:
    """Lacks a method."""

    def prepare(self, inputs: Sequence[bytes]) -> Tensors:
        return plain_input(inputs)
