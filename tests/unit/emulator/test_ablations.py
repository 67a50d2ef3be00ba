"""What is switched off is off."""

import pytest

from esg.emulator.scenario import applied
from tests.support.emulated_runs import Ran, paper, run, scenario


def crowded(**changes: object) -> Ran:
    """A cluster too small for its load, so that queues form."""
    return run(requests=200, nodes=5, **changes)


def test_tasks_without_batching_have_one_job_each() -> None:
    assert crowded().summary["mean_batch"] > 1
    assert crowded(batching=False).summary["mean_batch"] == 1


def test_tasks_without_gpu_sharing_have_a_whole_gpu_each() -> None:
    ran = run(requests=100, gpu_sharing=False)
    assert {task.order.config.vgpus for task in ran.seen.started} == {7}
    assert {len(task.order.slices) for task in ran.seen.started} == {7}
    assert ran.summary["latency_ms"]["p50"] > run(requests=100).summary["latency_ms"]["p50"]


def test_whole_gpu_without_gpu_sharing_is_as_large_as_a_profiled_config() -> None:
    """A node of 5 vGPUs, and configs of 1, 2, 4 and 7: four is all that can be asked for."""
    seen = applied(paper(), scenario(vgpus=5, gpu_sharing=False))
    for function in seen.functions.values():
        assert {config.vgpus for config in function.profile.configs} == {4}


def test_inputs_come_from_afar_more_often_without_locality() -> None:
    near, far = run(), run(locality=False)
    assert far.summary["remote_transfers"] > 3 * near.summary["remote_transfers"]
    everything = near.summary["remote_transfers"] + near.summary["local_transfers"]
    assert far.summary["remote_transfers"] + far.summary["local_transfers"] == everything


def test_a_warm_start_has_no_cold_tasks_and_a_cold_start_has_some() -> None:
    warm, cold = run(requests=100), run(requests=100, warm_start=False)
    assert warm.summary["cold_starts"] == 0
    assert cold.summary["cold_starts"] > 0
    assert cold.summary["slo_hit_rate"] < warm.summary["slo_hit_rate"]


def test_models_are_loaded_ahead_unless_that_is_switched_off() -> None:
    assert run(requests=100, warm_start=False).seen.warmed
    assert not run(requests=100, warm_start=False, prewarm=False).seen.warmed


@pytest.mark.parametrize(
    "changes", [{"engine": "astar"}, {"engine": "astar", "group_size": 2}, {"k": 1}], ids=str
)
def test_settings_of_esg_reach_it(changes: dict[str, object]) -> None:
    changed = crowded(**changes).summary
    assert changed["digest"] != crowded().summary["digest"]
    assert changed["requests"] == 200
