"""Running a command that deals with a live mesh: in an event loop, and to a clean end.

Ctrl-C, SIGTERM and SIGHUP all cancel the command, so that whatever it opened is closed again. What
the world did wrong is told on stderr, with an exit code.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer

from esg.client import NoGateway
from esg.console.exit_codes import NOT_WELL, NothingThere
from esg.errors import Fault

T = TypeVar("T")


def run_live(command: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end and give its result."""
    try:
        return asyncio.run(_cancelled_by_signals(command))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except NoGateway as error:
        raise NothingThere(
            f"no gateway at {error.address}; start a mesh with esg up, or name its gateway: "
            "--gateway or ESG_GATEWAY"
        ) from None
    except Fault as error:
        say_error(str(error))
    raise typer.Exit(NOT_WELL)


async def _cancelled_by_signals(command: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):  # asyncio itself sees to Ctrl-C
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await command


def say_error(message: str) -> None:
    """Tell on stderr what went wrong, in several lines if there are: the end of a log, say. Control
    codes do not get through."""
    shown = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in message)
    if sys.stderr is not None:
        print(f"error: {shown}", file=sys.stderr)
