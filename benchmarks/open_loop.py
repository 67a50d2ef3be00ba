"""What can loadgen itself do? Its highest rate on one core, and how exactly it keeps to the plan.

    .venv/bin/python -m benchmarks.open_loop [--seconds S] [--json]

It sends to a gateway that does nothing: a real gRPC server in a process of its own, that answers
every request at once. Loadgen, all of it (the worker that sends and the process that counts), has
one core, the gateway another. A rate counts as offered if all requests went out, 99 of 100 within
50 ms of their plan, and all were answered: a sender that cannot keep up falls behind by seconds. At
the heavy rate the aim is p99 below 2 ms off the plan; requests may go out early, too, and that
counts as well.
"""

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import grpc
import uvloop
from rich.console import Console
from rich.table import Table

from esg.client import AsyncClient, RequestStream, Result
from esg.loadgen.outcome import LatencyHistogram, LoadOutcome
from esg.loadgen.send import LoadSpec, now_us, send
from esg.loadgen.worker import Assignment, WorkerReport
from esg.loadgen.worker_pool import WorkerPool
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.workload.arrivals import until
from esg.workload.mix import Mix
from esg.workload.payloads import Pictures
from esg.workload.plan import Workload
from esg.workload.rates import steady

APPLICATION = "app"
PAYLOAD_BYTES = 100
LATE_LIMIT_MS = 50.0
AIM_MS = 2.0
FIRST_RATE = 2_000
FINEST = 0.05
"""The rate is found to 5 %."""
TRIES = 2
"""A machine that was busy for a moment gets another chance."""
# ruff: noqa: N802 - the names are gRPC's


class DoNothing(public_grpc.PipelinesServicer):
    """Answers before it has looked."""

    async def ListApplications(
        self, asked: public.ListApplicationsRequest, context: Any
    ) -> public.ListApplicationsReply:
        return public.ListApplicationsReply(applications=[model.Application(name=APPLICATION)])

    async def SubmitMany(
        self, groups: AsyncIterator[public.SubmitGroup], context: Any
    ) -> AsyncIterator[public.ReplyGroup]:
        result = model.Result(application=APPLICATION, outcome=model.OUTCOME_DONE, slo_met=True)
        done = public.SubmitReply(result=result)
        async for group in groups:
            yield public.ReplyGroup(
                replies=[public.Reply(request_id=r.request_id, done=done) for r in group.requests]
            )


def serve(pipe: Connection, core: int) -> None:
    os.sched_setaffinity(0, {core})
    uvloop.run(_serve(pipe))


async def _serve(pipe: Connection) -> None:
    server = grpc.aio.server()
    public_grpc.add_PipelinesServicer_to_server(DoNothing(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    pipe.send(port)
    await asyncio.to_thread(pipe.poll, None)
    await server.stop(0)


@contextmanager
def gateway(core: int) -> Iterator[str]:
    """Its address."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, core), daemon=True)
    process.start()
    try:
        yield f"127.0.0.1:{ours.recv()}"
    finally:
        ours.send(None)
        process.join()


def offered(address: str, rate: int, seconds: float) -> dict[str, Any]:
    """One run of the real thing, at a Poisson rate."""
    outcome = LoadOutcome()

    def tell(report: WorkerReport) -> None:
        for record in report.records:
            outcome.fold(record)

    plan = Workload(rate=f"{rate}/s", pattern="poisson", duration_s=seconds)
    assignment = Assignment(
        gateway=address,
        plan=plan,
        applications=[APPLICATION],
        pictures=Pictures(sizes={APPLICATION: PAYLOAD_BYTES}),
        prefix="",
        number=0,
        workers=1,
        most_held=100_000,
    )
    pool = WorkerPool([assignment], tell, wait_s=30)
    pool.run()
    p50_ms, p99_ms = outcome.late.percentiles_ms(50, 99)
    planned = sum(1 for _ in plan.arrivals([APPLICATION]))
    return {
        "per_s": rate,
        "late_ms": {"p50": p50_ms, "p99": p99_ms, "most": outcome.late.most_ms},
        "latency_ms": outcome.total.percentiles_ms(),
        "kept_up": planned == outcome.total.served.done and p99_ms <= LATE_LIMIT_MS,
    }


def highest(address: str, seconds: float) -> list[dict[str, Any]]:
    """Twice as much until it is too much, then halfway between: every run, in order."""
    runs: list[dict[str, Any]] = []
    low, high, rate = 0, 0, FIRST_RATE
    while not high or (high - low) / high > FINEST:
        tries = 0
        while tries < TRIES and not (tries and runs[-1]["kept_up"]):
            runs.append(offered(address, rate, seconds))
            tries += 1
        if runs[-1]["kept_up"]:
            low = rate
        else:
            high = rate
        rate = (low + high) // 2 if high else 2 * rate
    return runs


class Timed:
    """A stream that notes when each request really went out."""

    def __init__(self, stream: RequestStream) -> None:
        self._stream = stream
        self.sent_us: list[int] = []

    def submit(
        self, application: str, payload: bytes, *, slo_ms: float | None, request_id: str | None
    ) -> asyncio.Future[Result]:
        self.sent_us.append(now_us())
        return self._stream.submit(application, payload, slo_ms=slo_ms, request_id=request_id)


async def exactness(address: str, seconds: float) -> dict[str, float]:
    """At the heavy rate: how far from the plan requests went out, early or late."""
    endless = steady("heavy", Mix.uniform([APPLICATION]), seed=0)
    arrivals = list(until(endless, round(seconds * 1e6)))
    payload = bytes(PAYLOAD_BYTES)
    async with AsyncClient(address) as client, client.stream() as stream:
        await stream.submit(APPLICATION, payload)
        timed = Timed(stream)
        began_us = now_us()
        await send(timed, arrivals, LoadSpec(payload=lambda _: payload), lambda _: None)
    errors = LatencyHistogram()
    for arrival, sent_us in zip(arrivals, timed.sent_us, strict=True):
        errors.add(abs(sent_us - began_us - arrival.at_us))
    p50_ms, p99_ms = errors.percentiles_ms(50, 99)
    return {"p50_ms": p50_ms, "p99_ms": p99_ms, "most_ms": errors.most_ms, "aim_p99_ms": AIM_MS}


def measure(seconds: float) -> dict[str, Any]:
    ours, theirs = sorted(os.sched_getaffinity(0))[:2]
    with gateway(theirs) as address:
        os.sched_setaffinity(0, {ours})  # workers inherit it
        exact = uvloop.run(exactness(address, 3 * seconds))
        runs = highest(address, seconds)
    return {
        "heavy": exact,
        "highest_per_s": max((run["per_s"] for run in runs if run["kept_up"]), default=0),
        "runs": runs,
    }


def show(found: dict[str, Any]) -> None:
    screen = Console()
    table = Table(title=f"Offered on one core, payloads of {PAYLOAD_BYTES} B")
    for heading in ("per s", "late p50 ms", "late p99 ms", "answer p50 ms", "answer p99 ms", ""):
        table.add_column(heading, justify="right")
    for run in sorted(found["runs"], key=lambda run: int(run["per_s"])):
        late, latency = run["late_ms"], run["latency_ms"]
        times = (late["p50"], late["p99"], latency["p50"] or 0, latency["p99"] or 0)
        verdict = "kept up" if run["kept_up"] else "too much"
        table.add_row(str(run["per_s"]), *(f"{time:.2f}" for time in times), verdict)
    screen.print(table)
    heavy = found["heavy"]
    screen.print(f"Highest rate that it keeps up with: {found['highest_per_s']}/s")
    screen.print(
        f"At the heavy rate, off the plan by: p50 {heavy['p50_ms']:.2f} ms, "
        f"p99 {heavy['p99_ms']:.2f} ms, at most {heavy['most_ms']:.2f} ms (aim: p99 < {AIM_MS:g})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.open_loop", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=5, help="per run")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    arguments = parser.parse_args()
    found = measure(arguments.seconds)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
