"""Apex holds jobs back for others to batch them with. A vCPU costs 1, a vGPU 10 pUSD/us."""

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.policies.interface import QueueView
from esg.core.state.state import Phase, Task
from esg.units import ms
from tests.support.apex_cases import PAIRS, apex, held_until_ms, offered, trusted, warm
from tests.support.desk import Desk, arrived, finished, joined, start
from tests.support.policy_cases import (
    by_name,
    catalog,
    chain,
    function,
    make_node,
    queue_view,
)


def test_waiting_goes_on_until_the_job_could_no_longer_go_alone() -> None:
    pairs = chain(PAIRS)
    lone = trusted(queue_view(pairs, slo_ms=201, interval_ms=24))
    # after four intervals a second job has come in four of five cases, and 105 ms are left
    assert held_until_ms(pairs, lone) == 96
    assert held_until_ms(pairs, trusted(queue_view(pairs, slo_ms=151, interval_ms=50))) == 50
    too_late = queue_view(pairs, slo_ms=151, interval_ms=50, now_ms=50)
    assert held_until_ms(pairs, trusted(too_late)) is None


def test_job_is_not_held_where_waiting_gains_nothing() -> None:
    pairs = chain(PAIRS)
    assert (
        held_until_ms(pairs, trusted(queue_view(pairs, slo_ms=300))) is None
    )  # when does one come?
    lone = trusted(queue_view(pairs, slo_ms=300, interval_ms=50))
    assert held_until_ms(pairs, lone, "holding") is None
    assert (
        held_until_ms(pairs, trusted(queue_view(pairs, slo_ms=300, interval_ms=50, waiting=2)))
        is None
    )
    assert held_until_ms(pairs, trusted(queue_view(pairs, slo_ms=105, interval_ms=50))) is None
    linear = chain({(1, 1, 1): 100, (2, 1, 1): 200})
    assert held_until_ms(linear, trusted(queue_view(linear, slo_ms=300, interval_ms=10))) is None


def test_job_is_not_held_for_longer_than_its_work_takes() -> None:
    pairs = chain(PAIRS)  # 100 ms, alone
    patient = trusted(queue_view(pairs, slo_ms=60_000, interval_ms=45))
    assert held_until_ms(pairs, patient) == 90
    assert held_until_ms(pairs, trusted(queue_view(pairs, slo_ms=60_000, interval_ms=500))) is None
    patient.jobs[0].ready_us -= ms(70)  # it has waited already
    assert held_until_ms(pairs, patient) == 22.5


def test_job_is_not_held_for_arrivals_that_are_long_overdue() -> None:
    pairs = chain(PAIRS)
    lone = trusted(queue_view(pairs, slo_ms=60_000, interval_ms=10))
    assert held_until_ms(pairs, lone) == 40
    lone.queue.arrivals.latest_us -= ms(39)
    assert held_until_ms(pairs, lone) == 1
    lone.queue.arrivals.latest_us -= ms(1)
    assert held_until_ms(pairs, lone) is None


def test_a_client_that_waits_for_each_answer_is_not_waited_for_ever_longer() -> None:
    desk = Desk(catalog=chain(PAIRS), policy=apex)
    desk.at(0, joined(resident={0: ("a",), 1: ("a",)}))
    took_ms = []
    for number in range(1, 13):
        asked_us = desk.now_us
        desk.at(asked_us, arrived(f"r{number}", "app", slo_us=ms(60_000)))
        if not desk.new_orders:
            desk.wake()
        assert desk.new_orders == [start(f"t{number}", "app/a", f"r{number}")]
        desk.at(desk.now_us + ms(100), finished(f"t{number}", running_us=ms(100)))
        took_ms.append((desk.now_us - asked_us) // 1000)
    assert took_ms[0] == 100
    assert max(took_ms) <= 200
    desk.close()


def run(view: QueueView, task: Task) -> None:
    """Let a task run on a node that has nothing else to do."""
    node = make_node(task.invoker)
    node.give(task.name, task.config.vcpus, task.slices)
    view.state.add_node(node)
    view.state.tasks[task.name] = task


def second_stage(*keepers: str, running_on: str) -> tuple[Catalog, QueueView]:
    """Jobs whose inputs are kept there wait at the second stage, and a task of the first one, with
    one job and a config that takes 100 ms, has been running for 70."""
    catalog = chain(PAIRS, PAIRS)
    found = queue_view(catalog, stage="b", waiting=len(keepers), slo_ms=500, now_ms=100)
    for job, keeper in zip(found.jobs, keepers, strict=True):
        found.requests[job.request].runs["a"].keeper = keeper
    config = Config(1, 1, 1)
    run(found, Task("t1", 1, running_on, "app", "a", config, (0,), ("r9",), started_us=ms(30)))
    return catalog, found


def test_a_later_stage_waits_for_what_runs_on_the_same_node() -> None:
    assert held_until_ms(*second_stage("i0", running_on="i0")) == 130
    assert held_until_ms(*second_stage("i0", running_on="i1")) is None


def test_jobs_are_batched_where_their_inputs_are() -> None:
    catalog, found = second_stage("i0", "i1", "i0", running_on="i2")
    offer = offered(catalog, found)
    assert (offer.picks, offer.plans[0].config.batch) == ((0, 2), 2)


def test_a_job_that_was_started_just_now_is_of_the_cohort() -> None:
    catalog = chain({(1, 1, 1): 100}, PAIRS)
    twin = trusted(queue_view(catalog, slo_ms=230, interval_ms=10))
    assert held_until_ms(catalog, twin) is not None
    twin.state.tasks["t1"] = Task(
        "t1", 1, "i1", "app", "a", Config(1, 1, 1), (0,), ("r9",), started_us=0
    )
    offer = offered(catalog, twin)
    assert offer.plans[0].rest[0].config == Config(2, 1, 1)
    placement = apex(catalog).place(twin, offer, by_name(warm("i0"), warm("i1")))
    assert placement is not None
    assert placement.node.invoker == "i1"


def joining(*, branch_done: bool) -> tuple[Catalog, QueueView]:
    """A job waits for others where two branches join; a task of one of them runs on the same node,
    for a request whose other branch has been done there, or has not."""
    linear, pairs = function("f", {(1, 1, 1): 100}), function("g", PAIRS)
    stages = [
        Stage("a", linear),
        Stage("b", linear, ("a",)),
        Stage("c", linear, ("a",)),
        Stage("d", pairs, ("b", "c")),
    ]
    split = catalog(Application.of("app", stages, slo_us=ms(900)))
    found = trusted(queue_view(split, stage="d", waiting=2, slo_ms=900, now_ms=300))
    for branch in ("b", "c"):
        found.requests["r1"].runs[branch].keeper = "i0"
    coming = found.requests["r2"].runs
    del found.queue.jobs[1]
    if branch_done:
        coming["c"].phase, coming["c"].keeper = Phase.DONE, "i0"
    config = Config(1, 1, 1)
    run(found, Task("t1", 1, "i0", "app", "b", config, (0,), ("r2",), started_us=ms(250)))
    return split, found


def test_job_at_a_join_waits_for_those_that_lack_nothing_else() -> None:
    assert held_until_ms(*joining(branch_done=True)) == 350
    assert held_until_ms(*joining(branch_done=False)) is None
