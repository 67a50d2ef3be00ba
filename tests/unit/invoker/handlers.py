"""CPU parts that tests have run in workers."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path


class Wrap:
    """Leaves its mark on what it was given."""

    def prepare(self, inputs: Sequence[bytes]) -> Sequence[bytes]:
        return [b"<" + content + b">" for content in inputs]

    def finish(self, output: bytes) -> bytes:
        return b"[" + output + b"]"


class Where:
    """Says where it runs: the worker, and the cores that it may use."""

    def prepare(self, inputs: Sequence[bytes]) -> Sequence[bytes]:
        return [f"{os.getpid()} {sorted(os.sched_getaffinity(0))}".encode()]

    def finish(self, output: bytes) -> bytes:
        return output


class Meeting:
    """Waits in a directory until enough have come."""

    def prepare(self, inputs: Sequence[bytes]) -> Sequence[bytes]:
        folder, enough, name = (content.decode() for content in inputs)
        (Path(folder) / f"came-{name}").touch()
        while len(list(Path(folder).iterdir())) < int(enough):
            time.sleep(0.001)
        return [name.encode()]

    def finish(self, output: bytes) -> bytes:
        return output


class Odd(Exception):
    """One that cannot be unpickled."""

    def __init__(self, this: str, that: str) -> None:
        super().__init__(f"{this} and {that}")


class Failing:
    """Does what its input says."""

    def prepare(self, inputs: Sequence[bytes]) -> Sequence[bytes]:
        match inputs[0]:
            case b"raise":
                raise ValueError("not a picture")
            case b"raise something odd":
                raise Odd("this", "that")
            case b"exit":
                sys.exit("enough")
            case b"die":
                os.kill(os.getpid(), signal.SIGKILL)
                raise AssertionError("still alive")
            case b"text":
                return ["text"]  # type: ignore[list-item]
            case _:
                return inputs

    def finish(self, output: bytes) -> bytes:
        return None  # type: ignore[return-value]


class Unmade:
    """Cannot even be made."""

    def __init__(self) -> None:
        raise FileNotFoundError("no weights")

    def prepare(self, inputs: Sequence[bytes]) -> Sequence[bytes]:
        return inputs

    def finish(self, output: bytes) -> bytes:
        return output


class Half:
    """Lacks a method."""

    def prepare(self, inputs: Sequence[bytes]) -> Sequence[bytes]:
        return inputs
