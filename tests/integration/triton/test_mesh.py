"""Requests through gateway, controller, invoker and real Triton servers."""

import asyncio
import os
import signal
from pathlib import Path

from esg.client import AsyncClient, Outcome
from esg.local.supervisor import Mesh
from tests.support.mesh_expectations import nothing_is_left
from tests.support.triton_folders import inverted
from tests.support.waiting import until

LARGE = bytes(range(256)) * 4_000  # large enough for shared memory


def tritons(mesh: Mesh) -> list[int]:
    """The processes of the node's Triton servers."""
    return [pid for pid in _children(mesh.processes["node0"]) if _program(pid) == "tritonserver"]


def _children(pid: int) -> list[int]:
    """Of all its threads: a Triton starts its models' processes wherever it is."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


async def test_an_application_runs_on_real_models(mesh: Mesh, client: AsyncClient) -> None:
    for payload in (b"picture", LARGE):
        result = await client.submit("twice", payload)
        assert (result.outcome, result.reason) == (Outcome.DONE, "")
        assert result.outputs == {"join": inverted(payload)}
        assert [stage.stage for stage in result.stages] == ["invert", "join"]
    await nothing_is_left(mesh, client)


async def test_a_handler_of_several_cores_is_given_all_that_the_plan_grants(
    mesh: Mesh, client: AsyncClient
) -> None:
    """Its only config has two vCPUs; where the machine has no two cores, one is all there is."""
    result = await client.submit("counted", b"x")
    cores = min(2, len(os.sched_getaffinity(0)))
    assert (result.outcome, result.reason) == (Outcome.DONE, "")
    assert result.outputs == {"counted": f"x {cores} {cores} {cores}".encode()}


async def test_a_cold_start_is_in_the_first_result_and_not_in_the_next(
    mesh: Mesh, client: AsyncClient
) -> None:
    cold = await client.submit("ponder", b"0 ms")
    warm = [await client.submit("ponder", b"0 ms") for _ in range(5)]
    assert cold.outputs == {"ponder": b"0 ms"}
    # starting a Python process with numpy against a call to it
    assert cold.stages[0].run_ms > 2 * min(result.stages[0].run_ms for result in warm)
    assert cold.cost_usd > min(result.cost_usd for result in warm)


async def test_requests_at_the_same_time_share_calls_and_each_gets_its_own(
    mesh: Mesh, client: AsyncClient
) -> None:
    payloads = [f"picture {number}".encode() + LARGE[:number] for number in range(24)]
    results = await asyncio.gather(*(client.submit("invert", payload) for payload in payloads))
    assert [result.outputs for result in results] == [
        {"invert": inverted(payload)} for payload in payloads
    ]
    await nothing_is_left(mesh, client)


async def test_payload_that_a_model_or_a_handler_cannot_bear_fails_that_request_alone(
    mesh: Mesh, client: AsyncClient
) -> None:
    payloads = [b"good one", b"Bad one!", b"#icture!", b"fine one"]
    results = await asyncio.gather(*(client.submit("invert", payload) for payload in payloads))
    good, bad, no_picture, fine = results
    assert (good.outputs, fine.outputs) == (
        {"invert": inverted(b"good one")},
        {"invert": inverted(b"fine one")},
    )
    assert bad.outcome is Outcome.FAILED
    assert "ValueError: the model cannot bear it" in bad.reason
    assert no_picture.outcome is Outcome.FAILED
    assert "prepare: ValueError: not a picture" in no_picture.reason
    await nothing_is_left(mesh, client)


async def test_models_that_cannot_be_had_fail_their_requests_with_the_reason(
    mesh: Mesh, client: AsyncClient
) -> None:
    applications = ["broken", "corrupt", "absent", "join"]
    results = await asyncio.gather(*(client.submit(name, b"x") for name in applications))
    broken, corrupt, absent, fine = results
    assert "RuntimeError: no weights today" in broken.reason
    assert "… cannot be read" in corrupt.reason  # which file that is, the log says
    assert "absent has no folder in the catalog" in absent.reason
    assert fine.outputs == {"join": b"x"}
    await nothing_is_left(mesh, client)


async def test_a_triton_that_is_killed_under_load_costs_no_request(
    mesh: Mesh, client: AsyncClient
) -> None:
    payloads = [f"50 {number}".encode() for number in range(40)]
    requests = [asyncio.create_task(client.submit("ponder", payload)) for payload in payloads]
    while not any(request.done() for request in requests):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.01)
    before = tritons(mesh)
    assert len(before) == 2
    models = _children(before[0])
    assert models
    os.kill(before[0], signal.SIGKILL)
    results = await asyncio.gather(*requests)
    assert [result.outputs for result in results] == [{"ponder": payload} for payload in payloads]

    async def replaced() -> bool:
        left = any(map(_is_there, [before[0], *models]))
        return not left and len(tritons(mesh)) == 2

    await until(replaced)
    await nothing_is_left(mesh, client)
