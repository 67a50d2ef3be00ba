"""Work for other processes: one per core, or those of any executor with the interface of
`concurrent.futures`."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context, parent_process
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what had been finished before: results by the numbers of their items."""

    def __init__(self, finished: Mapping[int, Any]) -> None:
        super().__init__()
        self.finished = finished


LOOK_S = 0.2
"""How often the progress of other processes is looked at."""

SPAWN = get_context("spawn")
"""Not fork: this process may have threads (a progress bar, say)."""


def each(
    run: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    watch: Callable[[Sequence[float]], None] = lambda shares: None,
) -> list[Result]:
    """What comes of every item, in their order; `watch` is called as each one is done, and now and
    then between, with the share of each that is.

    Without an executor there are `workers` processes, or one per core, in which `run` can `tell`
    how far it is; of other executors only the ends are known. The first failure ends them all, and
    so does Ctrl-C, which then brings what was finished (`Interrupted`).
    """
    shares: MutableSequence[float] = [0.0] * len(items)
    with ExitStack() as stack:
        if executor is None:
            shares = SPAWN.RawArray("d", len(items))
            executor = stack.enter_context(_own_workers(workers or usable_cores(), shares))
        with _uninterrupted():
            futures = [executor.submit(run, item) for item in items]
        numbers = {future: number for number, future in enumerate(futures)}
        ended: SimpleQueue[Future[Result]] = SimpleQueue()
        try:
            for future in futures:
                future.add_done_callback(ended.put)
            while numbers:
                try:
                    future = ended.get(timeout=LOOK_S)
                except Empty:
                    watch(shares)
                    continue
                future.result()
                shares[numbers.pop(future)] = 1.0
                watch(shares)
        except BaseException as error:
            for future in futures:  # an executor that was given goes on with what it has
                future.cancel()
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(_finished(futures)) from None
            raise
        return [future.result() for future in futures]


def _finished(futures: Sequence[Future[Result]]) -> dict[int, Result]:
    return {
        number: future.result()
        for number, future in enumerate(futures)
        if future.done() and not future.cancelled() and future.exception() is None
    }


def usable_cores() -> int:
    """Those that this process may use, which can be fewer than there are (`taskset`, say)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_shares: MutableSequence[float] = []
"""In a worker of ours: how much of each item is done. An item has one writer, so there is no lock,
and nobody waits for one that a killed worker holds."""


def _begin(shares: MutableSequence[float]) -> None:
    global _shares
    _shares = shares
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Who has been killed ends nobody, and a worker would wait for its next item for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def tell(number: int, share: float) -> None:
    """In a worker of ours: so much of the item of this number is done."""
    _shares[number] = share


@contextmanager
def own_workers(count: int | None = None) -> Iterator[Executor]:
    """Processes for `each` that stay between several calls of it: as many, or one per core."""
    with _own_workers(count or usable_cores(), SPAWN.RawArray("d", 1)) as executor:
        yield executor


@contextmanager
def _own_workers(count: int, shares: MutableSequence[float]) -> Iterator[Executor]:
    """Processes that are ended, not waited for, when something goes wrong."""
    strangers = active_children()
    executor = ProcessPoolExecutor(count, SPAWN, initializer=_begin, initargs=(shares,))
    try:
        yield executor
    except BaseException:
        for child in active_children():
            if child not in strangers:
                child.kill()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until all workers are there: one whose start is interrupted is known to nobody.
    So does whatever else interrupts this process.

    It is blocked, which workers inherit, so that they never hear of it: they are ended from here.
    That is not enough for this process, since numpy's threads hear it too and tell the main one.
    """
    if current_thread() is not main_thread():
        yield  # it is the main thread that interrupts come to
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(signal.getsignal(number))
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
