"""The CPU part of functions: decoding, pre- and post-processing, in worker processes.

A function without a handler has no CPU part of its own: the bytes of its inputs are the model's
input, and the model's output is the stage's. A handler is a class, named in the catalog by module
or by file (`module:Class`, `file.py:Class`):

    class Handler:
        def prepare(self, inputs: Sequence[bytes]) -> Mapping[str, np.ndarray]: ...
        def finish(self, outputs: Mapping[str, np.ndarray], inputs: Sequence[bytes]) -> bytes: ...

`prepare` makes of one job's inputs an array per input of the model, without the batch dimension;
`finish` makes the stage's output of the model's. Where a function declares tensors, or several
inputs or outputs, both are by name instead: `inputs` is a mapping to arrays and bytes, and so is
what `finish` gives. A handler is made once per worker. A task that was
granted v vCPUs has v of its jobs worked on at a time, each on a core of its own where the machine
has as many cores as the node offers vCPUs; where it has fewer, the number of workers is the only
limit.

A handler whose function says `cpu = "within_job"` works on one job after the other instead, each
with all v cores, and is told how many it may use:

    def prepare(self, inputs: Sequence[bytes], *, cores: int) -> Mapping[str, np.ndarray]: ...
    def finish(self, outputs, inputs, *, cores: int) -> bytes: ...

The file of a handler is read once, when the node starts or the function is reloaded: workers that
start later have the same code, whatever is on disk by then. A module is imported by each worker.

A handler that can do nothing with what it was given raises `Rejected`, with words for the client:
that is `InvalidInput`, which no other attempt could cure. Whatever else it does wrong with a job is
a `Fault` that names it. Both concern that job alone: also when it takes its worker with it, or does
not return in time.
"""

import asyncio
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from inspect import signature
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple, Protocol, cast

from esg.core.catalog.cpu_use import CpuUse
from esg.errors import Fault, Rejected
from esg.invoker.gathering import together
from esg.invoker.handlers.metrics import HandlerMetrics
from esg.invoker.handlers.worker_processes import OutOfTime, WorkerDied, Workers
from esg.invoker.tensors.arrays import Tensors, checked

Bytes = bytes | memoryview
CORES = "cores"
"""The parameter of handlers that use several cores for one job."""
IMPORT_S = 60.0
"""What reading handlers anew may take at least."""
_BYTES = bytes | bytearray | memoryview
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""Of an object in a worker's memory, as in Python's default `repr`: it tells nobody anything."""


class InvalidInput(Rejected):
    """An input that a handler turned down, in the handler's own words."""


JobError = Fault | InvalidInput
"""What can go wrong with one job."""


Inputs = Sequence[Bytes] | Mapping[str, Any]
"""Of a job: blobs, or arrays and bytes by name."""


class Handler(Protocol):
    def prepare(self, inputs: Any) -> Tensors: ...

    def finish(self, outputs: Tensors, inputs: Any) -> bytes | Mapping[str, Any]: ...


def check_handler(name: str, cpu: CpuUse = CpuUse.ACROSS_JOBS) -> None:
    """Refuse a handler that is not there, before anyone needs it, or cannot be called as its
    function says."""
    found = _class(name)
    methods = [getattr(found, method, None) for method in ("prepare", "finish")]
    if not all(map(callable, methods)):
        raise Rejected(f"handler {name!r}: it needs the methods prepare and finish; add them")
    if cpu is CpuUse.WITHIN_JOB and not all(map(_takes_cores, methods)):
        raise Rejected(
            f'handler {name!r}: with cpu = "{cpu}", prepare and finish are told how many cores '
            f"they may use; let both have a parameter `{CORES}`, or say "
            f'cpu = "{CpuUse.ACROSS_JOBS}"'
        )


def _takes_cores(method: Any) -> bool:
    try:
        parameters = signature(method).parameters
    except (TypeError, ValueError):  # of a callable that says nothing about itself
        return True
    return CORES in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


class Cores:
    """Which cores are whose; none are anybody's if there are fewer than vCPUs."""

    def __init__(self, vcpus: int, cores: Sequence[int]) -> None:
        self._free: list[int] | None = list(cores)[:vcpus] if len(cores) >= vcpus else None

    def take(self, count: int) -> tuple[int, ...]:
        if self._free is None:
            return ()
        taken, self._free = self._free[:count], self._free[count:]
        return tuple(taken)

    def give_back(self, cores: Sequence[int]) -> None:
        if self._free is not None:
            self._free = sorted([*self._free, *cores])


class _Work(NamedTuple):
    """What is done with jobs: a method of a handler, for a function."""

    handler: str
    method: str
    function: str
    named: bool = False
    """Whether what is made has names, where it need not have any."""


class CpuParts:
    """`timeout_s` is what a handler may take for one job, before as well as after the model. The
    files of `handlers` are read now; those that use several cores for one job are `within_job`,
    too. Jobs are counted for the function that they are of."""

    def __init__(
        self,
        vcpus: int,
        timeout_s: float,
        handlers: Iterable[str] = (),
        within_job: Iterable[str] = (),
    ) -> None:
        usable = sorted(os.sched_getaffinity(0))
        self._cores = Cores(vcpus, usable)
        self._most_cores = len(usable)
        self._handlers = tuple(handlers)
        self._within_job = frozenset(within_job)
        self._sources = _read(self._handlers)
        self._workers = Workers(min(vcpus, len(usable)), partial(_keep_sources, self._sources))
        self._timeout_s = timeout_s
        self.metrics = HandlerMetrics(self._workers.ended)

    async def prepare(
        self, handler: str, jobs: Sequence[Inputs], vcpus: int, *, function: str = ""
    ) -> list[Tensors | JobError]:
        """The model's inputs for every job of a task, or what went wrong with it."""
        given = [(_copied(job),) for job in jobs]
        work = _Work(handler, "prepare", function)
        return cast(list[Tensors | JobError], await self._all(work, given, vcpus))

    async def finish(
        self,
        handler: str,
        jobs: Sequence[tuple[Tensors, Inputs]],
        vcpus: int,
        *,
        function: str = "",
        named: bool = False,
    ) -> list[Any]:
        """The stage's outputs for every job: of the model's outputs, and the job's inputs. They are
        bytes, or with `named` arrays and bytes by name; or what went wrong with the job."""
        given = [(outputs, _copied(inputs)) for outputs, inputs in jobs]
        work = _Work(handler, "finish", function, named)
        return await self._all(work, given, vcpus)

    @asynccontextmanager
    async def renewed(self, handler: str) -> AsyncIterator[Callable[[], None]]:
        """Read a handler anew, in a worker that has the others as they are; refused if one of them
        cannot be used there. What this gives has all later calls made in such workers."""
        sources = {**self._sources, **_read([handler])}
        set_up = partial(_keep_sources, sources)
        limit_s = max(self._timeout_s, IMPORT_S)
        handlers = {name: self._use(name) for name in (*self._handlers, handler)}
        renewed = self._workers.renewed(set_up, limit_s, _check_all, handlers)
        try:
            async with renewed as take_over:

                def take() -> None:
                    self._sources = sources
                    take_over()

                yield take
        except WorkerDied:
            raise Fault(f"handler {handler}: the worker that read it anew died") from None
        except OutOfTime:
            raise Fault(f"handler {handler}: it was not read within {limit_s:g} s") from None

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        self._workers.close()

    def _use(self, handler: str) -> CpuUse:
        return CpuUse.WITHIN_JOB if handler in self._within_job else CpuUse.ACROSS_JOBS

    async def _all(self, work: _Work, jobs: Sequence[tuple[Any, ...]], vcpus: int) -> list[Any]:
        granted = self._cores.take(vcpus)
        within = self._use(work.handler) is CpuUse.WITHIN_JOB
        told = min(vcpus, self._most_cores) if within else None
        spare = [granted] if within else [granted[n : n + 1] for n in range(len(granted))]
        slots = asyncio.Semaphore(1 if within else vcpus)

        async def one(job: tuple[Any, ...]) -> Any:
            async with slots:
                cores = spare.pop() if spare else ()
                try:
                    return await self._one(work, job, cores, told)
                except (Fault, InvalidInput) as error:
                    self.metrics.failed(work.function)
                    return error
                finally:
                    if cores:
                        spare.append(cores)

        try:
            return await together([one(job) for job in jobs])
        finally:
            self._cores.give_back(granted)

    async def _one(
        self, work: _Work, job: tuple[Any, ...], cores: tuple[int, ...], told: int | None
    ) -> Any:
        handler, method, function, named = work
        try:
            result, took_s = await self._workers.call(
                self._timeout_s, _call, handler, method, job, cores, told, named
            )
            self.metrics.ended(function, method, took_s)
            return result
        except WorkerDied:
            what = "its worker died; the machine's memory may not suffice"
        except OutOfTime:
            what = (
                f"it did not return within {self._timeout_s:g} s and was ended; "
                "if it needs longer, raise invoker.handler_timeout_s"
            )
        raise Fault(f"handler {handler}: {method}: {what}")


def _call(
    handler: str,
    method: str,
    job: tuple[Any, ...],
    cores: tuple[int, ...],
    told: int | None,
    named: bool = False,
) -> tuple[Any, float]:
    """In a worker: what the handler makes of a job, and the seconds that it took. What goes wrong
    is told in words: other errors may not survive the way back."""
    if cores:
        _stay_on(cores)
    _class(handler)  # without it, no job can be done
    ready = False
    try:
        work = getattr(_handler(handler), method)
        ready = True  # what is turned down from here on is the job's input
        began = perf_counter()
        result = work(*job) if told is None else work(*job, cores=told)
        took_s = perf_counter() - began
        if method == "finish":
            return _named(result) if named else _bytes(result), took_s
        return checked(result), took_s
    except Rejected as error:
        if ready:
            raise InvalidInput(str(error)) from None
        raise Fault(f"handler {handler}: {error}") from None
    except Fault as error:  # in words that are meant for people
        raise Fault(f"handler {handler}: {method}: {error}") from None
    except (Exception, SystemExit) as error:
        what = _ADDRESS.sub("", f"{type(error).__name__}: {error}")
        raise Fault(f"handler {handler}: {method}: {what}") from None


def _stay_on(cores: tuple[int, ...]) -> None:
    """Use these cores only: this thread, and those that a handler has kept from earlier jobs."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread.name), cores)


def _check_all(handlers: Mapping[str, CpuUse]) -> None:
    """In a new worker."""
    for handler, cpu in handlers.items():
        check_handler(handler, cpu)


def _copied(contents: Inputs) -> Any:
    if isinstance(contents, Mapping):
        return contents
    return [bytes(content) for content in contents]


def _bytes(result: Any) -> bytes:
    if not isinstance(result, _BYTES):
        raise TypeError(f"it gave {type(result).__name__} where bytes are wanted")
    return bytes(result)


def _named(result: Any) -> dict[str, Any]:
    """Arrays and bytes by name; an array may be of strings."""
    if not isinstance(result, Mapping):
        raise TypeError(f"it gave {type(result).__name__} where outputs by name are wanted")
    arrays = {name: value for name, value in result.items() if not isinstance(value, _BYTES)}
    found = {name: bytes(result[name]) for name in result if name not in arrays}
    return found | (checked(arrays) if arrays else {})


@cache
def _handler(name: str) -> Handler:
    return _class(name)()


@cache
def _class(name: str) -> Callable[[], Handler]:
    home, _, attribute = name.rpartition(":")
    try:
        module = _module_in(Path(home)) if home.endswith(".py") else importlib.import_module(home)
        return cast(Callable[[], Handler], getattr(module, attribute))
    except (Exception, SystemExit) as error:  # importing runs any code
        what = "it ends the process" if isinstance(error, SystemExit) else error
        raise Rejected(
            f"handler {name!r}: {what}; it must be module:Class or file.py:Class, importable by "
            "the invoker"
        ) from error


_sources: dict[str, bytes] = {}
"""In a worker, what the files of handlers had in them when they were read."""


def _read(handlers: Iterable[str]) -> dict[str, bytes]:
    """The files of those handlers that are in one."""
    homes = (Path(name.rpartition(":")[0]) for name in handlers)
    try:
        return {str(home): home.read_bytes() for home in homes if home.suffix == ".py"}
    except OSError as error:
        raise Rejected(f"handler {error.filename!r}: {error.strerror}") from None


def _keep_sources(sources: Mapping[str, bytes]) -> None:
    """In a new worker."""
    _sources.update(sources)


def _module_in(file: Path) -> ModuleType:
    """A file run as a module of its own: every function has a handler.py."""
    spec = importlib.util.spec_from_file_location(str(file), file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    source = _sources[str(file)] if str(file) in _sources else file.read_bytes()
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    exec(compile(source, file, "exec"), module.__dict__)
    return module
