"""Waiting until a moment, to a fraction of a millisecond.

The event loops reckon their timers in whole milliseconds, which is too coarse for work that takes
ten of them. A timer of the kernel (timerfd) does better: it becomes readable at the moment it is
set to, and the loop watches it like a socket. Python offers it from 3.13 on; until that is the
oldest supported version, it is called through ctypes.
"""

import asyncio
import ctypes
import os
import time
from contextlib import suppress

_NS_PER_S = 1_000_000_000
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class _TimerSpec(ctypes.Structure):
    """struct itimerspec: how often it repeats, and when it rings; each in seconds and ns."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class Alarm:
    """Rings for one waiter at a time, at a moment of `time.monotonic_ns`."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._timer = self._checked(
            self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        )
        self._loop.add_reader(self._timer, self._ring)

    async def until(self, moment_ns: int) -> None:
        """Returns at once when it is past."""
        if moment_ns <= time.monotonic_ns():
            return
        self._waiter = self._loop.create_future()
        at_s, at_ns = divmod(moment_ns, _NS_PER_S)
        spec = ctypes.byref(_TimerSpec(at_s=at_s, at_ns=at_ns))
        self._checked(self._libc.timerfd_settime(self._timer, _ABSOLUTE, spec, None))
        await self._waiter

    def close(self) -> None:
        self._loop.remove_reader(self._timer)
        os.close(self._timer)

    def _ring(self) -> None:
        # Nothing to read: it was set anew after it rang, for somebody who gave up
        with suppress(BlockingIOError):
            os.read(self._timer, 8)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def _checked(self, result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), f"timerfd: {os.strerror(ctypes.get_errno())}")
        return result
