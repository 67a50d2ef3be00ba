"""Bugs planted on purpose: the simulation finds each of them within a few seeds."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from msgspec import structs

from esg.core.messages.commands import AdmitRequest, AnswerRequest, DiscardData
from esg.core.messages.events import RequestArrived
from esg.core.scheduler.dispatch import Dispatcher
from esg.core.scheduler.handovers import Handovers
from esg.core.scheduler.lifecycle import Lifecycle
from esg.core.scheduler.nodes import Nodes
from esg.core.scheduler.retries import Retries
from esg.core.scheduler.scheduler import Scheduler
from esg.core.scheduler.standing_orders import StandingOrders
from esg.core.scheduler.tasks import Tasks
from esg.core.sessions.controller_end import NodeSession, NodeSessions, Welcome
from esg.core.sessions.inquiry import Inquiry
from esg.core.sessions.interest import Interest
from esg.core.sessions.node_end import NodeNote, NodeReporter
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import NEVER_US, Queue, State
from esg.units import ms
from tests.simulation.checked_run import Broken, tell
from tests.simulation.faults import controller
from tests.simulation.faults.controller import Controller
from tests.simulation.faults.schedule import ControllerCrashes, RequestComes
from tests.simulation.story import SPAN_US, Story, draw, in_turn, with_room

SEEDS = 40


def broken_promise(seeds: int = SEEDS, story: Callable[[int], Story] = draw) -> str:
    """What the first story says that does not end well."""
    for seed in range(seeds):
        try:
            tell(story(seed))
        except Broken as error:
            return str(error)
    return ""


def instead(
    monkeypatch: pytest.MonkeyPatch, kind: type, name: str, wrong: Callable[..., Any]
) -> None:
    """`wrong` gets the right method, and then its arguments."""
    right = getattr(kind, name)
    monkeypatch.setattr(kind, name, lambda *args, **more: wrong(right, *args, **more))


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, NodeBooks, "release", lambda *_: None)
    found = broken_promise()
    assert "seen again with: .venv/bin/python -m tests.simulation --seed " in found
    assert "the latest events:" in found


def test_slices_that_are_never_released(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, NodeBooks, "release", lambda *_: None)
    assert "vCPUs free" in broken_promise()


def test_a_request_that_is_answered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(right: Any, self: Any, command: Any) -> None:
        right(self, command)
        if isinstance(command, AnswerRequest):
            right(self, command)

    instead(monkeypatch, Scheduler, "_emit", twice)
    assert "was answered twice" in broken_promise()


def test_a_request_that_is_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsaid(right: Any, self: Any, command: Any) -> None:
        if not isinstance(command, AnswerRequest):
            right(self, command)

    instead(monkeypatch, Scheduler, "_emit", unsaid)
    assert "never answered" in broken_promise()


def test_jobs_that_are_forgotten_with_their_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(right: Any, self: Any, now_us: int, task: Any, name: str, reason: Any) -> None:
        if reason is not None:
            right(self, now_us, task, name, reason)

    instead(monkeypatch, Retries, "give_back", forgetful)
    assert broken_promise()


def test_data_that_is_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(right: Any, self: Any, command: Any) -> None:
        if not isinstance(command, DiscardData):
            right(self, command)

    instead(monkeypatch, Scheduler, "_emit", careless)
    assert "which nobody needs" in broken_promise()


def test_a_queue_that_is_never_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfair(right: Any, self: Any, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        return [queue for queue in right(self, queues, now_us) if queue.stage != "label"]

    instead(monkeypatch, Dispatcher, "_due", unfair)
    assert broken_promise()


def test_a_queue_that_is_taken_for_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(right: Any, self: Any, request: Any, stage: str, now_us: int) -> Queue:
        queue: Queue = right(self, request, stage, now_us)
        if stage == "label":
            self._busy.pop(queue.name)
        return queue

    instead(monkeypatch, Lifecycle, "_queue_up", forgetful)
    assert "the next wake-up" in broken_promise()


def test_memory_that_no_snapshot_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not in the state is lost in a restart, and a replay goes another way."""
    right = Lifecycle.admit
    admitted = 0

    def secretive(self: Any, name: str, application: Any, slo_us: int, now_us: int) -> None:
        nonlocal admitted
        admitted += 1
        right(self, name, application, slo_us + admitted, now_us)

    monkeypatch.setattr(Lifecycle, "admit", secretive)
    assert "a replay ends up elsewhere" in broken_promise() or "Diverged" in broken_promise()


def test_work_that_is_given_to_a_node_that_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(right: Any, self: State) -> Any:
        draining, self.health.draining = self.health.draining, []
        nodes = right(self)
        self.health.draining = draining
        return nodes

    instead(monkeypatch, State, "open_nodes", blind)
    assert "wants no new work" in broken_promise()


def test_tasks_that_are_not_looked_for_when_a_node_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instead(monkeypatch, Nodes, "_reconcile", lambda *_: None)
    assert broken_promise()


def test_data_that_is_not_accounted_for_when_a_node_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instead(monkeypatch, Nodes, "_account_for", lambda *_: None)
    assert "which nobody needs" in broken_promise(300)


def test_requests_that_wait_behind_a_model_that_loads_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each by itself would be told in the end, and all together after hours."""
    monkeypatch.setattr(Retries, "_loads_nowhere", lambda *_: False)
    assert "waited until" in broken_promise(300)


def test_a_scheduler_that_is_not_built_again_after_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It knows of an event that no journal has."""
    monkeypatch.setattr(Controller, "_rebuilt", lambda self: self.running)
    assert broken_promise()


# ---- in what waits for the disk


def machine_fails(seed: int) -> Story:
    """The controller's machine fails again and again while requests come that nobody waits for, and
    whatever was not synced yet is lost."""
    chance = Random(f"{seed}:machine")
    requests = [
        RequestComes(
            at_us=at_us,
            event=RequestArrived(request=f"r{at_us}", application="thumb"),
            later=True,
        )
        for at_us in range(0, SPAN_US, ms(10))
    ]
    crashes = [
        ControllerCrashes(at_us=at_us + chance.randrange(ms(60)), for_us=ms(5), torn=0.0)
        for at_us in range(ms(20), SPAN_US, ms(80))
    ]
    faults = sorted([*requests, *crashes], key=lambda fault: fault.at_us)
    return Story(seed=seed, faults=tuple(faults), latency_us=ms(1), sync_us=ms(5))


def test_machine_that_fails_breaks_no_promise() -> None:
    for seed in range(3):
        tell(machine_fails(seed))


def hurried(kind: type) -> Callable[..., bool]:
    """Orders of a kind leave before they are on disk."""

    def waits(right: Any, self: Controller, command: Any) -> bool:
        return not isinstance(command, kind) and right(self, command)

    return waits


def test_answers_that_leave_before_they_are_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, Controller, "_waits", hurried(AnswerRequest))
    assert "was told what no journal has" in broken_promise(3, machine_fails)


def test_acceptances_for_good_that_leave_before_they_are_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instead(monkeypatch, Controller, "_waits", hurried(AdmitRequest))
    assert "was accepted for good, and forgotten" in broken_promise(3, machine_fails)


def test_task_numbers_that_are_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes may run tasks that the journal lost with its machine."""
    monkeypatch.setattr(controller, "next_epoch", lambda state: state.tasks_started)
    assert broken_promise(3, machine_fails)


# ---- in standing orders


def roomy(seed: int) -> Story:
    return with_room(draw(seed), "apex")


def test_nodes_go_on_by_themselves_in_stories_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def noted(right: Any, self: StandingOrders, ended: Any, continued: str, now_us: int) -> Any:
        following = right(self, ended, continued, now_us)
        begun.extend([continued] if following is not None else [])
        return following

    instead(monkeypatch, StandingOrders, "begin", noted)
    assert not broken_promise(10, roomy)
    assert len(begun) > 10


def test_what_a_node_goes_on_with_and_no_books_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs are queued as if it had not."""
    instead(monkeypatch, StandingOrders, "begin", lambda *_: None)
    monkeypatch.setattr(Tasks, "_stop_unknown", lambda *_: None)
    assert broken_promise(story=roomy)


def test_jobs_that_a_node_has_gone_on_with_and_that_wait_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(right: Any, self: Any, *args: Any) -> None:
        right(self, *args[:-1], None)

    instead(monkeypatch, Lifecycle, "finish_job", forgetful)
    assert "runs twice" in broken_promise(story=roomy)


def test_slices_that_are_free_although_a_node_has_gone_on_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def generous(right: Any, self: StandingOrders, *args: Any) -> Any:
        task = right(self, *args)
        if task is not None:
            self._state.nodes[task.invoker].release(task.name, task.config.vcpus, task.slices)
        return task

    instead(monkeypatch, StandingOrders, "begin", generous)
    assert "vCPUs free" in broken_promise(story=roomy)


def test_follow_ups_that_want_more_than_their_task_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(right: Any, self: StandingOrders, *args: Any) -> Any:
        order = right(self, *args)
        return structs.replace(order, config=order.config._replace(vcpus=8))

    instead(monkeypatch, StandingOrders, "_order", greedy)
    assert "wants more than that holds" in broken_promise(story=roomy)


def test_orders_that_stand_and_cannot_be_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, StandingOrders, "ended", lambda *_: None)
    assert "have standing orders, counted as" in broken_promise(story=roomy)


# ---- in handovers


def phased(seed: int) -> Story:
    return in_turn(draw(seed))


def test_slices_are_promised_ahead_in_stories_with_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    promised: list[str] = []

    def noted(right: Any, self: NodeBooks, task: str, *more: Any) -> None:
        right(self, task, *more)
        promised.append(task)

    instead(monkeypatch, NodeBooks, "promise", noted)
    assert not broken_promise(10, phased)
    assert len(promised) > 100


def test_vcpus_that_are_given_back_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(right: Any, self: NodeBooks, vcpus: int) -> None:
        right(self, vcpus + 1)

    instead(monkeypatch, NodeBooks, "give_back", generous)
    assert "vCPUs free" in broken_promise(story=phased)


def test_tasks_that_follow_and_are_never_expected_on_their_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instead(monkeypatch, Handovers, "left", lambda *_: None)
    assert "will never hand its slices over" in broken_promise(story=phased)


def test_handovers_that_nobody_wakes_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handovers, "next_us", lambda _: NEVER_US)
    assert "is the time for it" in broken_promise(story=phased)


def test_slices_that_are_promised_although_their_task_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def careless(right: Any, self: StandingOrders, *args: Any) -> Any:
        task = right(self, *args)
        if task is not None:
            self._state.nodes[task.invoker].promise(task.name, task.slices, NEVER_US)
        return task

    instead(monkeypatch, StandingOrders, "begin", careless)
    assert "keeps its slices" in broken_promise(story=lambda seed: in_turn(roomy(seed)))


# ---- in the sessions between nodes and controller


def test_reports_that_are_acknowledged_before_they_are_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(right: Any, self: NodeSession, number: int, event: Any) -> bool:
        self.acknowledge(number)
        taken: bool = right(self, number, event)
        return taken

    instead(monkeypatch, NodeSession, "take", hasty)
    assert "has forgotten what is nowhere" in broken_promise(300)


def test_reports_that_are_not_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(right: Any, self: NodeReporter, inventory: Any) -> list[NodeNote]:
        return [note for note in right(self, inventory) if not note.number]

    instead(monkeypatch, NodeReporter, "join", forgetful)
    assert "has forgotten what is nowhere" in broken_promise()


def test_reports_that_are_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, NodeSession, "take", lambda right, *args: right(*args) or True)
    assert "is heard twice" in broken_promise()


def test_a_session_that_was_given_up_and_does_not_start_afresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trusting(right: Any, *args: Any) -> Any:
        answer = right(*args)
        return answer._replace(start_afresh=False) if isinstance(answer, Welcome) else answer

    instead(monkeypatch, NodeSessions, "greet", trusting)
    assert "tells of the time before" in broken_promise()


def test_a_session_that_is_told_only_once_to_start_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first welcome may be lost with the stream."""

    def terse(right: Any, *args: Any) -> Any:
        answer = right(*args)
        if isinstance(answer, Welcome):
            answer.session.fresh = False
        return answer

    instead(monkeypatch, NodeSessions, "greet", terse)
    assert "tells of the time before" in broken_promise(300)


def test_reports_of_an_earlier_life_that_are_said_after_starting_afresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instead(monkeypatch, NodeReporter, "start_afresh", lambda *_: None)
    assert "tells of the time before" in broken_promise()


def test_a_session_that_goes_on_with_the_numbers_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: dict[str, NodeSession] = {}

    def confused(right: Any, *args: Any) -> Any:
        answer = right(*args)
        if isinstance(answer, Welcome):
            before = heard.setdefault(answer.session.node, answer.session)
            answer.session.heard_number = before.heard_number
            heard[answer.session.node] = answer.session
        return answer

    instead(monkeypatch, NodeSessions, "greet", confused)
    assert "has forgotten what is nowhere" in broken_promise()


def test_a_node_that_is_silent_and_never_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its power has failed; whoever comes in its place is refused, as its stream is still there."""

    def patient(right: Any, self: NodeSessions, now_us: int, session: NodeSession) -> None:
        session.deadline_us = NEVER_US

    instead(monkeypatch, NodeSessions, "_heard", patient)
    assert "is never let in" in broken_promise()


def test_orders_for_a_node_whose_inventory_the_scheduler_has_not_heard_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def eager(right: Any, self: NodeSessions, node: str) -> bool:
        known = self.of(node)
        return known is not None and known.stream is not None

    instead(monkeypatch, NodeSessions, "reachable", eager)
    assert broken_promise(300)


# ---- in what a gateway asks again


def test_questions_that_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(right: Any, self: Inquiry[Any], follow: Any) -> tuple[Any, ...]:
        return () if self.open else right(self, follow)

    instead(monkeypatch, Inquiry, "again", silent)
    assert "never answered" in broken_promise()


def test_requests_that_are_not_followed_on_another_link(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, Inquiry, "again", lambda right, self, _: right(self, None))
    assert "never answered" in broken_promise()


# ---- in who wants a request

# attack: F1


def test_leaving_that_cancels_what_somebody_else_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def selfish(right: Any, self: Interest, request: str, gateway: str) -> bool:
        right(self, request, gateway)
        return True

    instead(monkeypatch, Interest, "leave", selfish)
    assert "although" in broken_promise()


def test_who_waited_before_a_restart_and_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(right: Any, self: Interest, request: str, _: Any, *, kept: bool) -> None:
        right(self, request, (), kept=kept)

    instead(monkeypatch, Interest, "recall", forgetful)
    assert "although" in broken_promise(300)
