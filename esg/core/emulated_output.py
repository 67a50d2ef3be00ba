"""Emulated outputs: what an emulated model gives, bytes that can be computed again from its inputs.

An emulated model computes nothing, but its output depends on every byte of its inputs, on their
order and on the function. So a client that knows a request's payload can check the result of a
whole pipeline byte for byte: a lost, doubled or exchanged piece of data shows.
"""

from collections.abc import Sequence
from hashlib import sha256

_LENGTH_BYTES = 8
_LOOKED_AT_BYTES = 4096


def emulated_output(function: str, inputs: Sequence[bytes | memoryview], size: int) -> bytes:
    """The output of one job: a digest of its function and inputs, repeated up to the size.

    >>> emulated_output("detect", [b"left", b"right"], 36).hex()
    '242134c7ddaed6044aba0054c845e70ee64daeeb7f8db7588617c2ea17ff43df242134c7'
    >>> emulated_output("detect", [b"leftr", b"ight"], 36).hex()
    '5778e6a72d0d2702577b82683301b26abff5cde94e119fc695d1d245a9c57c855778e6a7'
    """
    digest = sha256(function.encode())
    for content in inputs:
        digest.update(len(content).to_bytes(_LENGTH_BYTES, "little"))
        digest.update(content)
    block = digest.digest()
    return (block * (size // len(block) + 1))[:size]


def looks_emulated(output: bytes) -> bool:
    """Whether an output is one digest, again and again, as no picture and no text is.

    An output that is too short to repeat itself is not known for one.

    >>> [looks_emulated(emulated_output("detect", [b"x"], size)) for size in (100_000, 40)]
    [True, False]
    >>> [looks_emulated(output) for output in (bytes(1000), b"A text. " * 100)]
    [False, False]
    """
    block_bytes = sha256().digest_size
    beginning = output[:_LOOKED_AT_BYTES]
    varied = len(set(beginning[:block_bytes])) > block_bytes // 2
    repeated = beginning[block_bytes:] == beginning[:-block_bytes]
    return len(beginning) >= 2 * block_bytes and varied and repeated


def output_size(input_bytes: int, payload_scale: float) -> int:
    """How many bytes an emulated model gives: as many as its function takes by the catalog, scaled.

    That a model gives what it took is a simplification; at least a whole digest is given.
    """
    return max(sha256().digest_size, round(input_bytes * payload_scale))
