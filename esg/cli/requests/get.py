"""`esg get` and `esg cancel`: requests that were submitted before."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.cli.requests.connection import run_live
from esg.cli.requests.outputs import Folder
from esg.cli.requests.view import print_result, result_document
from esg.client import AsyncClient, RequestState, Result
from esg.console.options import AsJson, Gateway
from esg.console.terminal import print_json, print_line, terminal
from esg.errors import Rejected
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY

RequestId = Annotated[
    str, typer.Argument(metavar="ID", help="The id that esg submit --no-wait printed.")
]


def get(
    request_id: RequestId,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Wait for it, and write its outputs there, as ID.STAGE."),
    ] = None,
    gateway: Gateway = DEFAULT_GATEWAY,
    as_json: AsJson = False,
) -> None:
    """Show the state or the result of a request.

    The outputs of one that nobody waited for (esg submit --no-wait) are kept for a while, which is
    shown; until then --out fetches them, as often as wanted.

    \b
    Examples:
      esg get 7d1f0c5e2b8a4c0f9f6e3a1b2c4d5e6f
      esg get 7d1f0c5e2b8a4c0f9f6e3a1b2c4d5e6f --out results
    """
    folder = None if out is None else Folder(out, [Path(request_id)])
    state, result = run_live(_get(gateway, request_id, fetch=folder is not None))
    written: dict[str, Path] | None = None
    refused: Rejected | None = None
    if folder is not None and result is not None:
        try:
            folder.write(Path(request_id), result.outputs)
        except Rejected as error:
            refused = error
        written = folder.written[Path(request_id)]
    _show(state, result, written, as_json=as_json)
    if refused is not None:  # after what is there
        raise refused


def cancel(
    request_id: RequestId, gateway: Gateway = DEFAULT_GATEWAY, as_json: AsJson = False
) -> None:
    """Cancel a request, if it has not ended yet."""
    done = run_live(_cancel(gateway, request_id))
    if as_json:
        print_json({"request_id": request_id, "cancelled": done})
    else:
        print("cancelled" if done else "not cancelled: it had already ended")


async def _get(gateway: str, request_id: str, *, fetch: bool) -> tuple[RequestState, Result | None]:
    async with AsyncClient(gateway, patience_s=2.0) as mesh:
        state = await mesh.get(request_id)
        return state, await mesh.fetch(request_id) if fetch else state.result


async def _cancel(gateway: str, request_id: str) -> bool:
    async with AsyncClient(gateway, patience_s=2.0) as mesh:
        return await mesh.cancel(request_id)


def _show(
    state: RequestState, result: Result | None, written: dict[str, Path] | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(_document(state, result, written))
    elif result is not None:
        print_result(terminal(), result.application, result, written)
        if written is None and state.output_bytes:
            _print_waiting(state)
    else:
        screen = terminal()
        screen.print(f"{state.application}: under way", soft_wrap=True)
        for progress in state.progress:
            what = "done" if progress.finished else f"began on {progress.node}"
            screen.print(f"  {progress.at_ms:.1f} ms: {progress.stage} {what}", soft_wrap=True)


def _print_waiting(state: RequestState) -> None:
    sizes = ", ".join(f"{stage} {size:,} bytes" for stage, size in state.output_bytes.items())
    print_line(terminal(), f"outputs: {sizes}; until {_clock(state)}, --out DIR fetches them")


def _until(state: RequestState) -> datetime:
    return datetime.now().astimezone() + timedelta(seconds=state.fetch_within_s or 0)


def _clock(state: RequestState) -> str:
    """When outputs expire, by this machine's clock; with the day, if that is another one."""
    until = _until(state)
    today = until.date() == datetime.now().astimezone().date()
    return until.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def _document(
    state: RequestState, result: Result | None, written: dict[str, Path] | None
) -> dict[str, Any]:
    return {
        "request_id": state.request_id,
        "application": state.application,
        "progress": [
            {
                "stage": progress.stage,
                "node": progress.node,
                "finished": progress.finished,
                "at_ms": progress.at_ms,
            }
            for progress in state.progress
        ],
        "result": None if result is None else result_document(result, written),
        "output_bytes": state.output_bytes,
        "fetch_until": _until(state).isoformat(timespec="seconds") if state.output_bytes else None,
    }
