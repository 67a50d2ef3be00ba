"""`esg submit`: run files through a pipeline of a live mesh."""

import asyncio
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.cli.requests.connection import run_live, say_error
from esg.cli.requests.outputs import Folder
from esg.cli.requests.view import EMULATED, StageBars, is_emulated, print_result, result_document
from esg.client import AsyncClient, Progress, Result
from esg.console.formatting import counted
from esg.console.options import AsJson, Gateway, above_zero
from esg.console.terminal import print_json, print_line, terminal
from esg.errors import Fault, Rejected
from esg.limits import LONGEST_SLO_MS
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY

AT_ONCE = 32
"""Files that are read and under way at the same time."""
CANCELLING_S = 10.0
"""How long a mesh may take to cancel requests; another Ctrl-C does not wait."""
STDIN = Path("-")
"""The file that stands for standard input."""


@dataclass(frozen=True, slots=True)
class SubmitPlan:
    """What is asked for every file."""

    application: str
    slo_ms: float | None
    all_stages: bool


@dataclass(slots=True)
class Sent:
    """One file, and what became of it."""

    path: Path
    payload: bytes | None = None  # read already, or not yet
    request_id: str = ""
    result: Result | None = None
    error: Exception | None = None


def submit(
    application: Annotated[
        str, typer.Argument(metavar="APPLICATION", help="The name of the application.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Each is the payload of one request; - is standard input."
        ),
    ],
    slo_ms: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            callback=above_zero(LONGEST_SLO_MS),
            show_default="the application's",
            help="Deadline in milliseconds.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Whether to wait for the results.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the outputs to this folder, as FILE.STAGE."),
    ] = None,
    all_stages: Annotated[
        bool,
        typer.Option("--all-stages", help="Outputs of all stages, not only of the last ones."),
    ] = False,
    gateway: Gateway = DEFAULT_GATEWAY,
    as_json: AsJson = False,
) -> None:
    """Run files through an application of a live mesh.

    Several files are several requests, which run at the same time. Ctrl-C cancels them. The exit
    code is 1 if one of them failed, and 2 if one was refused.

    \b
    Examples:
      esg submit image-classification photo.jpg
      esg submit image-classification *.jpg --slo-ms 600 --out results
      esg submit image-classification photo.jpg --all-stages --out results
      esg submit image-classification photo.jpg --no-wait
      curl -s https://example.com/photo.jpg | esg submit image-classification -
    """
    for path in files:
        if path != STDIN and not path.is_file():
            reason = "is not a file" if path.exists() else "no such file"
            raise Rejected(f"{path}: {reason}; name files that can be read")
    if out is not None and not wait:
        raise Rejected("--out needs the results; leave out --no-wait, or esg get them later")
    sent = _payloads(files)
    folder = None if out is None else Folder(out, [one.path for one in sent])
    asked = SubmitPlan(application, slo_ms, all_stages)
    run_live(_submit(gateway, asked, sent, wait=wait, shown=wait and not as_json))
    if folder is not None:
        _write(folder, sent)
    written = {} if folder is None else folder.written
    if as_json:
        print_json({"requests": [_document(one, written.get(one.path, {})) for one in sent]})
    else:
        _print(sent, written, wait=wait)
    _end(sent)


def _payloads(files: list[Path]) -> list[Sent]:
    """A payload for every file. Standard input is read here and now: Ctrl-C would not end a thread
    that waits for it."""
    if files.count(STDIN) > 1:
        raise Rejected("- (standard input) can be read only once; name it once")
    if STDIN in files and sys.stdin is None:
        raise Rejected("-: standard input is closed; name files")
    return [
        Sent(Path("stdin"), sys.stdin.buffer.read()) if path == STDIN else Sent(path)
        for path in files
    ]


async def _submit(
    gateway: str, asked: SubmitPlan, sent: list[Sent], *, wait: bool, shown: bool
) -> None:
    turns = asyncio.Semaphore(AT_ONCE)
    async with AsyncClient(gateway, patience_s=2.0) as mesh:
        stages = len((await mesh.describe_application(asked.application)).stages)
        with StageBars(stages, shown=shown) as bars:

            async def one(file: Sent) -> None:
                async with turns:
                    try:
                        payload = file.payload
                        if payload is None:
                            payload = await asyncio.to_thread(_read, file.path)
                        # Known before it is sent: it may be accepted without our hearing of it
                        file.request_id = uuid.uuid4().hex
                        await mesh.submit_async(
                            asked.application,
                            payload,
                            slo_ms=asked.slo_ms,
                            request_id=file.request_id,
                            all_stages=asked.all_stages,
                        )
                        if wait:
                            file.result = await _watched(mesh, file, bars)
                    except (Rejected, Fault) as error:
                        file.error = error

            try:
                await asyncio.gather(*(one(file) for file in sent))
            except asyncio.CancelledError:
                await _cancel(mesh, sent)
                raise


async def _watched(mesh: AsyncClient, file: Sent, bars: StageBars) -> Result:
    async for news in mesh.watch(file.request_id):
        if isinstance(news, Progress):
            bars.tell(file.path.name, news)
    bars.end(file.path.name)
    return await mesh.fetch(file.request_id)


async def _cancel(mesh: AsyncClient, sent: list[Sent]) -> None:
    """Cancel what is still under way: nobody waits for it any more."""
    under_way = [file.request_id for file in sent if file.request_id and file.result is None]
    await asyncio.gather(
        *(mesh.cancel(request, timeout_s=CANCELLING_S) for request in under_way),
        return_exceptions=True,  # some may have ended, or have never arrived
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Rejected(f"{path}: cannot be read: {error.strerror}") from None


def _write(folder: Folder, sent: list[Sent]) -> None:
    """Outputs of one file that cannot be written do not keep those of the others."""
    for file in sent:
        if file.result is not None:
            try:
                folder.write(file.path, file.result.outputs)
            except Rejected as error:
                file.error = error


def _document(file: Sent, written: dict[str, Path]) -> dict[str, Any]:
    document: dict[str, Any] = {"file": str(file.path), "request_id": file.request_id}
    if file.error is not None:
        document["error"] = str(file.error)
    if file.result is not None:
        document |= result_document(file.result, written)
    return document


def _print(sent: list[Sent], written: dict[Path, dict[str, Path]], *, wait: bool) -> None:
    screen = terminal()
    for file in sent:
        if file.result is not None and file.result.ok:  # what went wrong is told on stderr
            print_result(screen, str(file.path), file.result, written.get(file.path))
        elif not wait and file.error is None:
            print(file.request_id)
    if any(file.result is not None and is_emulated(file.result) for file in sent):
        print_line(screen, EMULATED)


def _end(sent: list[Sent]) -> None:
    """Say what went wrong, a line for each reason, and end with the code for it."""
    reasons: dict[str, list[Path]] = {}
    for file in sent:
        if file.error is not None:
            reasons.setdefault(str(file.error), []).append(file.path)
        elif file.result is not None and not file.result.ok:
            how = f"{file.result.outcome.value}: {file.result.reason or 'no reason was given'}"
            reasons.setdefault(how, []).append(file.path)
    for reason, (first, *others) in reasons.items():
        more = f" (and {counted(len(others), 'other')})" if others else ""
        say_error(f"{first}: {' '.join(reason.split())}{more}")
    if reasons:
        refused = any(isinstance(file.error, Rejected) for file in sent)
        raise typer.Exit(2 if refused else 1)
