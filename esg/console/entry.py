"""Running a command line so that whatever goes wrong is one line, and an exit code.

`exit_codes` has them. A traceback is left for what should never happen.
"""

import io
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread

import typer
from typer.core import TyperCommand, TyperGroup

from esg.console.exit_codes import (
    INTERRUPTED,
    NOT_WELL,
    NOTHING_THERE,
    REFUSED,
    NothingThere,
)
from esg.console.lazy import DISTRIBUTION, LazyCommand, extra_to_install
from esg.errors import Rejected


def run_app(
    app: TyperCommand | TyperGroup, name: str, arguments: Sequence[str] | None = None
) -> int:
    """Run a command line and return the exit code. Without arguments it shows its help."""
    _survive_any_encoding()
    # Read by gRPC when it is imported: what it would say about a connection we say ourselves
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        with _ended_like_ctrl_c():
            code = app.main(given, prog_name=name, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except NothingThere as error:
        _say(str(error))
        return NOTHING_THERE
    except Rejected as error:
        return _refuse(str(error))
    except typer.TyperException as error:
        return _refuse(_usage(error))
    except ModuleNotFoundError as error:
        reason = _missing(error, app, name, given[0])
        if reason is None:
            raise
        return _refuse(reason)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as error:
        # Both typer and rich end the process when a pipe closes, with an exit code of their own
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _drop_stdout()
        return 0
    except BrokenPipeError:
        _drop_stdout()
        return 0
    except OSError as error:
        _drop_stdout()
        _say(f"{error.filename or 'cannot write the output'}: {error.strerror or error}")
        return NOT_WELL


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP handled as Ctrl-C: whoever ends us with `timeout`, or by closing the
    terminal, gets what Ctrl-C does: no file that is not complete, and no process, stays behind.
    Commands that serve see to it themselves.
    """
    if current_thread() is not main_thread():
        yield  # signals are for the main thread to handle
        return
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL  # under nohup it is not
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _usage(error: typer.TyperException) -> str:
    """Typer's words for a bad argument, as one line that ends with what to do."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = re.sub("^Invalid value for '(.*?)':", r"\1:", message)
    message = message.replace(". Did you mean", "; did you mean")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    if context is None or "did you mean" in message:
        return message
    return f"{message}; see {context.command_path} --help"


def _missing(
    error: ModuleNotFoundError, app: TyperCommand | TyperGroup, name: str, first: str
) -> str | None:
    """Which extra the command needs that is not installed, or None if it is no matter of extras."""
    command: object = app
    if isinstance(app, TyperGroup):
        command, name = app.commands.get(first), f"{name} {first}"
    of_command = command.extra if isinstance(command, LazyCommand) else ""
    module = (error.name or "").partition(".")[0]
    extra = extra_to_install(module, of_command)
    if extra is None:
        return None
    return (
        f'{name} needs the extra "{extra}" ({module} is missing): '
        f"pip install '{DISTRIBUTION}[{extra}]'"
    )


def _refuse(message: str) -> int:
    _say(message)
    return REFUSED


def _say(message: str) -> None:
    line = " ".join(message.split())
    # A name from a file or a shell may hold anything, a terminal's control codes included
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    if sys.stderr is not None:  # it may be closed, and print would then take stdout
        print(f"error: {shown}", file=sys.stderr)


def _survive_any_encoding() -> None:
    """Have stdout escape what the terminal cannot show, rather than fail."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_stdout() -> None:
    """Let what is still buffered go nowhere, or Python complains about it while it exits."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
