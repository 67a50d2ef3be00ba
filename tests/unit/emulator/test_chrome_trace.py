"""The picture of a run: loads as JSON, and shows every slice doing one thing at a time."""

import io
import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from esg.core.catalog.phases import TaskMode
from esg.emulator.chrome_trace import ChromeTrace
from esg.emulator.run import emulate
from esg.emulator.sweep import Generated
from esg.workload.plan import Workload
from tests.support.emulated_runs import paper, run, scenario


def drawn(**changes: Any) -> list[dict[str, Any]]:
    file = io.StringIO()
    picture = ChromeTrace(file)
    arrivals = Generated(Workload(rate="heavy", requests=100)).arrivals(
        list(paper().applications), 0
    )
    emulate(paper(), scenario(**changes), arrivals, observe=picture.observe)
    picture.close()
    events: list[dict[str, Any]] = json.loads(file.getvalue())["traceEvents"]
    return events


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"nodes": 3},
        {"warm_start": False},
        {"tasks": TaskMode.PHASED, "nodes": 3},
        {"tasks": TaskMode.PHASED, "nodes": 9, "policy": "apex"},
        {"tasks": TaskMode.PHASED, "nodes": 3, "warm_start": False, "policy": "apex"},
    ],
    ids=str,
)
def test_bars_never_overlap_on_one_slice(changes: dict[str, Any]) -> None:
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in drawn(**changes):
        if event["ph"] == "X":
            start_us = event["ts"]
            slices[event["pid"], event["tid"]].append((start_us, start_us + event["dur"]))
    assert slices
    for bars in slices.values():
        for (start_us, end_us), (next_us, _) in pairwise(sorted(bars)):
            assert start_us < end_us <= next_us


def test_every_task_has_a_bar_on_each_of_its_slices() -> None:
    bars = [event for event in drawn() if event["ph"] == "X"]
    seen = run(requests=100).seen
    tasks = [(command.order, command.decision) for command in seen.started]
    found = sorted((bar["args"]["task"], bar["tid"]) for bar in bars)
    assert found == sorted((task.task, 1 + index) for task, _ in tasks for index in task.slices)
    shown = {bar["args"]["task"]: bar for bar in bars}
    for task, decision in tasks:
        bar = shown[task.task]
        assert bar["ts"] == seen.started_us[task.task]
        assert bar["ts"] + bar["dur"] == seen.ended_us[task.task]
        assert (bar["name"], bar["cat"]) == (task.function, decision.application)
        assert bar["args"]["requests"] == [job.request for job in task.jobs]
        assert not bar["args"]["failed"]


def test_the_cpu_parts_of_tasks_in_phases_hide_behind_what_runs_on_slices() -> None:
    events = drawn(tasks=TaskMode.PHASED, nodes=3)
    parts = [event for event in events if event.get("cat") == "cpu"]
    begun = {event["id"]: event["ts"] for event in parts if event["ph"] == "b"}
    ended = {event["id"]: event["ts"] for event in parts if event["ph"] == "e"}
    bars = [event for event in events if event["ph"] == "X"]
    assert len(begun) == len(ended) == len({bar["args"]["task"] for bar in bars})
    names = {event["id"]: event["args"]["task"] for event in parts if event["ph"] == "b"}
    on_slices = {bar["args"]["task"]: bar["ts"] for bar in bars}
    assert all(begun[part] <= ended[part] <= on_slices[names[part]] for part in begun)


def test_models_that_are_loaded_have_tracks_of_their_own() -> None:
    events = drawn(warm_start=False)
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    ended = {event["id"]: event for event in events if event["ph"] == "e"}
    assert begun.keys() == ended.keys()
    assert {event["name"] for event in begun.values()} >= {"load super-resolution", "load deblur"}
    for load, begin in begun.items():
        assert begin["ts"] < ended[load]["ts"]
    waited = [event for event in events if event["ph"] == "X" and event["args"]["loading_ms"]]
    assert waited
    for bar in waited:
        assert bar["args"]["loading_ms"] * 1000 <= bar["dur"]
    assert not [event for event in drawn() if event["ph"] in "be"]


def test_nodes_and_slices_have_names() -> None:
    names = [event for event in drawn(nodes=2) if event["ph"] == "M"]
    nodes = [event["args"]["name"] for event in names if event["name"] == "process_name"]
    slices = [event for event in names if event["name"] == "thread_name"]
    assert nodes == ["node0", "node1"]
    assert {(event["pid"], event["tid"]) for event in slices} == {
        (node, 1 + index)
        for node in (1, 2)
        for index in range(7)  # none is 0
    }


def test_a_picture_of_nothing_is_still_a_picture() -> None:
    file = io.StringIO()
    ChromeTrace(file).close()
    assert json.loads(file.getvalue())["traceEvents"] == []
