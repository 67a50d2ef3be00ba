"""What do more vCPUs bring to the CPU part of one job, if its handler uses several cores?

    .venv/bin/python -m benchmarks.cores [--rounds 9]

The CPU part of a node, with its worker processes, does one job with 1, 2, 4, ... vCPUs in turns, up
to as many as there are cores: by a handler of several cores (`within_job`), and by one that takes a
core for each job (`across_jobs`). Printed are the time of a job, and how many times as fast as with
one vCPU it is: the median of the rounds' ratios, as neighbours in time had the same machine.

Reference: `within_job` as many times as fast as there are vCPUs, `across_jobs` once.
"""

import argparse
import asyncio
import os
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter

import numpy as np

from esg.invoker.handlers.handler import CpuParts, JobError
from esg.invoker.tensors.arrays import INPUT

MB = 2**20
PARTS = 16
LIMIT_S = 60.0


class Packing:
    """Compresses its input, in parts; without `cores`, one after the other."""

    def prepare(self, inputs: Sequence[bytes], cores: int = 1) -> Mapping[str, np.ndarray]:
        size = len(inputs[0]) // PARTS
        parts = [inputs[0][n * size : (n + 1) * size] for n in range(PARTS)]
        with ThreadPoolExecutor(cores) as pool:  # zlib lets go of the interpreter
            packed = b"".join(pool.map(zlib.compress, parts))
        return {INPUT: np.frombuffer(packed, np.uint8)}

    def finish(self, outputs: Mapping[str, np.ndarray], inputs: Sequence[bytes]) -> bytes:
        return outputs[INPUT].tobytes()


class OnAllCores(Packing):
    """The same, by a name of its own."""


HERE = "benchmarks.cores"
HANDLERS = {"across_jobs": f"{HERE}:Packing", "within_job": f"{HERE}:OnAllCores"}


async def measure(rounds: int) -> None:
    cores = len(os.sched_getaffinity(0))
    counts = [2**n for n in range(cores.bit_length()) if 2**n <= cores]
    content = np.random.default_rng(0).integers(0, 16, 8 * MB, np.uint8).tobytes()
    cpu = CpuParts(cores, LIMIT_S, within_job=[HANDLERS["within_job"]])
    took_s: dict[tuple[str, int], list[float]] = {}
    try:
        for number in range(rounds + 1):  # the first one starts the workers
            for use, handler in HANDLERS.items():
                for vcpus in counts:
                    began = perf_counter()
                    (made,) = await cpu.prepare(handler, [[content]], vcpus)
                    if isinstance(made, JobError):
                        raise made
                    if number:
                        took_s.setdefault((use, vcpus), []).append(perf_counter() - began)
    finally:
        cpu.close()
    for (use, vcpus), times_s in took_s.items():
        ratios = [one / many for one, many in zip(took_s[use, 1], times_s, strict=True)]
        print(
            f"{use}: {vcpus} vCPUs: {1000 * median(times_s):.0f} ms, "
            f"{median(ratios):.2f} times as fast as with one"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cores",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=9)
    asyncio.run(measure(parser.parse_args().rounds))
