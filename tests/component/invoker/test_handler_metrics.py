"""What Prometheus learns of handlers and their worker processes."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from esg.invoker.handlers.handler import CpuParts
from esg.invoker.tensors.arrays import OUTPUT, byte_strings
from tests.support.waiting import LIMIT_S

HANDLERS = "tests.support.handlers"
FAILING, WRAP = f"{HANDLERS}:Failing", f"{HANDLERS}:Wrap"


@pytest.fixture
async def cpu() -> AsyncIterator[CpuParts]:
    parts = CpuParts(1, LIMIT_S)
    parts.metrics.begin(["blur"])
    yield parts
    parts.close()


@pytest.fixture
def registry(cpu: CpuParts) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(cpu.metrics)
    return made


def count(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


async def test_handlers_have_zeros_before_their_first_job(registry: CollectorRegistry) -> None:
    for method in ("prepare", "finish"):
        labels = {"function": "blur", "method": method}
        assert count(registry, "esg_node_handler_seconds_count", **labels) == 0
    assert count(registry, "esg_node_handler_failures_total", function="blur") == 0
    for reason in ("died", "timeout", "cancelled"):
        assert count(registry, "esg_node_handler_workers_ended_total", reason=reason) == 0


async def test_time_is_counted_for_the_function_and_the_method(
    cpu: CpuParts, registry: CollectorRegistry
) -> None:
    await cpu.prepare(WRAP, [[b"1"], [b"2"]], 1, function="blur")
    await cpu.finish(WRAP, [({OUTPUT: byte_strings([b"x"])}, [b"1"])], 1, function="blur")
    prepare, finish = (
        count(registry, "esg_node_handler_seconds_count", function="blur", method=method)
        for method in ("prepare", "finish")
    )
    assert (prepare, finish) == (2, 1)
    total = count(registry, "esg_node_handler_seconds_sum", function="blur", method="prepare")
    assert total is not None
    assert total > 0


async def test_a_job_that_takes_its_worker_with_it_is_a_failure_and_a_worker_that_died(
    cpu: CpuParts, registry: CollectorRegistry
) -> None:
    await cpu.prepare(FAILING, [[b"fine"], [b"refuse"], [b"die"]], 1, function="blur")
    assert count(registry, "esg_node_handler_failures_total", function="blur") == 2
    assert count(registry, "esg_node_handler_workers_ended_total", reason="died") == 1
    assert count(registry, "esg_node_handler_workers_ended_total", reason="timeout") == 0
