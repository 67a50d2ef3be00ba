"""The controller's shell: what it remembers, and which effects follow from each event.

There is no loop, no clock and no stream here. After every story, the rest of it is told from every
point to a shell that was restored from a snapshot: all must want the same done.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace as replaced
from pathlib import Path

import pytest
from msgspec.structs import replace

import esg.controller
from esg.controller.durability.recovery import deciding
from esg.controller.effects import (
    ConfirmJoin,
    Effect,
    TellAccepted,
    TellAnswered,
    TellPayloadLost,
    TellProgress,
)
from esg.controller.requests import request_log
from esg.controller.requests.request_log import AnsweredRequest, RequestRecord
from esg.controller.shell import ControllerShell, ShellSnapshot, request_memo
from esg.core.catalog.config import Config
from esg.core.journal.format import Memo
from esg.core.messages.codec import decode, encode
from esg.core.messages.commands import (
    Command,
    CorrectProfiles,
    Decision,
    DiscardData,
    RefusalKind,
    RefuseRequest,
    StartTask,
    StopTask,
)
from esg.core.messages.events import Event, RequestWanted, Woke
from esg.core.messages.task_order import AwaitedJob, JobOrder, Output, Payload, TaskOrder
from esg.core.scheduler.scheduler import build_scheduler
from esg.core.sessions.brought import brought_memo
from esg.core.sessions.controller_end import session_memo
from esg.core.sessions.interest import wanted_memo
from esg.limits import MOST_BROUGHT_BYTES
from esg.names import payload_stage
from esg.protos import model_v1_pb2 as model
from esg.runtime.settings import ControllerSettings
from esg.units import ms, seconds
from tests.support.desk import (
    arrived,
    cancelled,
    failed,
    finished,
    joined,
    lost,
    registered,
    reported,
)
from tests.support.small_catalog import SMALL

SETTINGS = ControllerSettings(policy="esg", prewarm=False, follow_profiles=True)
WARM = {0: ("detect", "resize", "label"), 1: ("detect", "resize", "label")}
HASH = b"content"
MEMO = request_memo(HASH, wanted_memo("g1", fetched_later=False))


class Table:
    """A scheduler with a shell, the latest effects, and the story so far."""

    def __init__(self) -> None:
        self.scheduler = build_scheduler(SMALL, deciding(SETTINGS))
        self.shell = ControllerShell(SETTINGS)
        self.effects: list[Effect] = []
        self._story: list[tuple[int, Event, Memo | None, list[Command]]] = []
        self._snapshots: list[ShellSnapshot] = []
        self._wanted: list[list[Effect]] = []

    def at(self, now_us: int, event: Event, memo: Memo | None = None) -> "Table":
        self._snapshots.append(self.shell.snapshot()())
        commands = self.scheduler.handle(now_us, event)
        self.effects = self.shell.apply(now_us, event, memo, commands)
        self._story.append((now_us, event, memo, commands))
        self._wanted.append(self.effects)
        return self

    def of(self, kind: type[Effect]) -> list[Effect]:
        return [effect for effect in self.effects if type(effect) is kind]

    def close(self) -> None:
        for position, snapshot in enumerate(self._snapshots):
            restored = ControllerShell(SETTINGS, decode(ShellSnapshot, encode(snapshot)))
            for told, wanted in zip(self._story[position:], self._wanted[position:], strict=True):
                assert restored.apply(*told) == wanted
            assert restored.snapshot()() == self.shell.snapshot()()


@pytest.fixture
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.close()


@pytest.fixture
def with_node(table: Table) -> Table:
    return table.at(0, joined(resident=WARM), session_memo("s1"))


def test_a_request_that_is_admitted_is_remembered_with_its_memo(table: Table) -> None:
    table.at(
        ms(5), arrived("r1", "thumb"), request_memo(HASH, wanted_memo("g1", fetched_later=True))
    )
    (accepted,) = table.effects
    assert isinstance(accepted, TellAccepted)
    record = table.shell.requests.under_way["r1"]
    assert accepted == TellAccepted(request="r1", record=record)
    assert (record.application, record.content_hash) == ("thumb", HASH)
    assert (record.fetched_later, record.arrived_us) == (True, ms(5))
    assert table.shell.counters.applications["thumb"].arrived == 1


def test_a_request_that_is_refused_leaves_no_trace_but_a_count(table: Table) -> None:
    table.at(0, arrived("r1", "thumb", slo_us=1), MEMO)
    (refused,) = table.effects
    assert isinstance(refused, RefuseRequest)
    assert refused.kind is RefusalKind.IMPOSSIBLE
    assert table.shell.requests.find("r1", 0) is None
    assert table.shell.counters.applications["thumb"].served.refused == 1


def test_applications_that_nobody_knows_are_not_counted(table: Table) -> None:
    table.at(0, arrived("r1", "nothing"), MEMO)
    assert [type(effect) for effect in table.effects] == [RefuseRequest]
    assert not table.shell.counters.applications


def test_a_request_of_a_later_version_goes_by_the_plain_name(with_node: Table) -> None:
    with_node.at(0, registered("scan", "label")).at(0, arrived("r1"), MEMO)
    assert with_node.shell.requests.under_way["r1"].application == "scan"
    assert list(with_node.shell.counters.applications) == ["scan"]


def test_the_order_for_a_first_stage_names_the_payload(with_node: Table) -> None:
    with_node.at(0, arrived("r1", "photo"), MEMO)
    (order,) = with_node.of(TaskOrder)
    assert isinstance(order, TaskOrder)
    assert [job.inputs for job in order.jobs] == [(Payload(key=payload_stage(HASH)),)]
    with_node.at(ms(10), finished("t1", running_us=ms(10)))
    (order,) = with_node.of(TaskOrder)
    assert order == with_node.shell.orders["t2"]  # as the scheduler said


def test_a_request_that_is_done_is_answered_and_its_answer_kept(with_node: Table) -> None:
    with_node.at(ms(5), arrived("r1", "thumb"), MEMO)
    with_node.at(ms(15), finished("t1", running_us=ms(10)))
    progress, answered, discarded = with_node.effects
    assert isinstance(progress, TellProgress)
    assert (progress.finished, progress.at_us) == (True, {"r1": ms(10)})
    assert isinstance(answered, TellAnswered)
    assert isinstance(discarded, DiscardData)
    assert not with_node.shell.orders
    kept = with_node.shell.requests.find("r1", ms(15))
    assert isinstance(kept, AnsweredRequest)
    assert kept.content_hash == HASH
    assert model.Result.FromString(kept.result) == answered.result
    assert answered.result.outcome == model.OUTCOME_DONE


def brings(table: Table) -> list[int | None]:
    """Of each job of the order that is sent, how large a result may come along."""
    (order,) = table.of(TaskOrder)
    assert isinstance(order, TaskOrder)
    return [job.bring_bytes if isinstance(job, AwaitedJob) else None for job in order.jobs]


def outputs(table: Table) -> dict[str, bytes]:
    """What goes with the answer, and with every later one."""
    (answered,) = table.of(TellAnswered)
    assert isinstance(answered, TellAnswered)
    kept = table.shell.requests.find(answered.answer.request, 0)
    assert isinstance(kept, AnsweredRequest)
    assert kept.outputs == answered.outputs
    return answered.outputs


def test_a_small_result_comes_along_with_the_report_and_goes_with_the_answer(
    with_node: Table,
) -> None:
    with_node.at(0, arrived("r1", "thumb"), MEMO)
    assert brings(with_node) == [SETTINGS.small_result_bytes]
    memo = brought_memo({"r1": b"cat", "somebody-elses": b"dog"})
    with_node.at(ms(10), finished("t1", running_us=ms(10)), memo)
    assert outputs(with_node) == {"resize": b"cat"}
    assert with_node.shell.requests.held_bytes == 3


def test_what_another_node_says_of_a_task_is_not_believed(with_node: Table) -> None:
    with_node.at(0, arrived("r1", "thumb"), MEMO)
    with_node.at(ms(1), joined("i9"), session_memo("s9"))
    fake = brought_memo({"r1": b"dog"})
    with_node.at(ms(5), finished("t1", on="i9", running_us=ms(1)), fake)
    with_node.at(ms(6), failed("t1", on="i9", missing=("r1/",)))
    assert with_node.of(TellPayloadLost) == []
    with_node.at(ms(10), finished("t1", running_us=ms(10)), brought_memo({"r1": b"cat"}))
    assert outputs(with_node) == {"resize": b"cat"}


def test_a_result_that_did_not_come_along_is_in_redis(with_node: Table) -> None:
    with_node.at(0, arrived("r1", "thumb"), MEMO).at(ms(10), finished("t1", running_us=ms(10)))
    assert outputs(with_node) == {}


def test_what_later_stages_read_does_not_come_along(with_node: Table) -> None:
    with_node.at(0, arrived("r1", "photo"), MEMO)
    assert brings(with_node) == [None]
    for number in (1, 2):
        with_node.at(ms(10 * number), finished(f"t{number}", running_us=ms(10)))
    assert brings(with_node) == [SETTINGS.small_result_bytes]


def test_standing_orders_say_what_comes_along(table: Table) -> None:
    shell = table.shell
    shell.requests.begin("r1", RequestRecord(application="photo", content_hash=HASH))
    job = JobOrder(request="r1", inputs=(Output(stage="resize", invoker="i0"),))
    last = TaskOrder(
        task="t2",
        invoker="i0",
        stage="label",
        function="label",
        config=Config(1, 1, 1),
        slices=(0,),
        jobs=(replace(job, publish=True),),
        keep=False,
        predicted_us=1,
    )
    first = replace(last, task="t1", jobs=(job,), keep=True, then=last)
    decision = Decision(application="photo", effort=0, missed=False)
    sent, _ = shell.apply(0, Woke(), None, [StartTask(order=first, decision=decision)])
    assert isinstance(sent, TaskOrder)
    assert sent.jobs == (job,)
    assert sent.then is not None
    assert [type(job) for job in sent.then.jobs] == [AwaitedJob]
    assert shell.orders["t1"] == first  # as the scheduler said


@pytest.mark.parametrize("small_bytes", [0, 7])
def test_how_large_a_small_result_is_is_a_setting(small_bytes: int) -> None:
    table = Table()
    table.shell = ControllerShell(replaced(SETTINGS, small_result_bytes=small_bytes))
    table.at(0, joined(resident=WARM), session_memo("s1")).at(0, arrived("r1", "thumb"), MEMO)
    assert brings(table) == [small_bytes]


def test_the_results_of_a_large_batch_fit_into_a_report(table: Table) -> None:
    table.at(0, joined(resident=WARM), session_memo("s1")).at(0, arrived("r0", "thumb"), MEMO)
    (order,) = table.of(TaskOrder)
    assert isinstance(order, TaskOrder)
    jobs = tuple([replace(order.jobs[0], request=f"r{n}") for n in range(100)])
    shell = ControllerShell(SETTINGS)
    for job in jobs:
        shell.requests.begin(job.request, RequestRecord(application="thumb", content_hash=HASH))
    sent = shell._as_sent(replace(order, jobs=jobs))
    assert all(isinstance(job, AwaitedJob) for job in sent.jobs)
    most_bytes = sum(job.bring_bytes for job in sent.jobs if isinstance(job, AwaitedJob))
    assert 2**16 < most_bytes <= MOST_BROUGHT_BYTES


def test_what_nobody_waits_for_does_not_come_along(with_node: Table) -> None:
    memo = request_memo(HASH, wanted_memo("g1", fetched_later=True))
    with_node.at(0, arrived("r1", "thumb"), memo)
    assert brings(with_node) == [None]


def test_while_too_much_is_held_nothing_comes_along(
    with_node: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "MOST_HELD_BYTES", 2)
    with_node.at(0, arrived("r1", "thumb"), MEMO)
    with_node.at(ms(10), finished("t1", running_us=ms(10)), brought_memo({"r1": b"cat"}))
    with_node.at(ms(10), arrived("r2", "thumb"), MEMO)
    assert brings(with_node) == [0]


@pytest.mark.parametrize("when", ["under way", "answered"])
def test_what_came_along_can_be_fetched_if_somebody_wants_it_later(
    with_node: Table, when: str
) -> None:
    later = wanted_memo("g2", fetched_later=True)
    with_node.at(0, arrived("r1", "thumb"), MEMO)
    if when == "under way":
        with_node.at(ms(1), RequestWanted(request="r1"), later)
    with_node.at(ms(10), finished("t1", running_us=ms(10)), brought_memo({"r1": b"cat"}))
    if when == "answered":
        with_node.at(ms(11), RequestWanted(request="r1"), later)
    kept = with_node.shell.requests.find("r1", seconds(SETTINGS.repeats_s + 1))
    assert isinstance(kept, AnsweredRequest)
    assert kept.outputs == {"resize": b"cat"}


def test_a_request_that_is_cancelled_holds_nothing(with_node: Table) -> None:
    with_node.at(0, arrived("r1", "thumb"), MEMO).at(ms(1), cancelled("r1"))
    with_node.at(ms(2), finished("t1", running_us=ms(2)), brought_memo({"r1": b"cat"}))
    assert with_node.shell.requests.held_bytes == 0


def test_a_payload_that_was_not_found_is_told_while_its_request_is_under_way(
    with_node: Table,
) -> None:
    with_node.at(0, arrived("r1", "thumb"), MEMO)
    missing = ("r1/", "somebody-elses/")
    told = []
    for number in (1, 2, 3):
        with_node.at(ms(1000 * number), failed(f"t{number}", missing=missing))
        told.append(with_node.of(TellPayloadLost))
        if with_node.scheduler.next_wake is not None:
            with_node.at(with_node.scheduler.next_wake, cancelled("nobody"))
    lost_one = [TellPayloadLost(request="r1")]
    assert told == [lost_one, lost_one, []]
    assert with_node.of(TellAnswered)


def test_a_node_hears_of_its_join_before_its_orders(table: Table) -> None:
    table.at(0, arrived("r1", "thumb"), MEMO)
    joins = joined(resident=WARM)
    table.at(ms(1), joins, session_memo("s1"))
    assert [type(effect) for effect in table.effects] == [ConfirmJoin, TaskOrder, TellProgress]
    assert table.shell.sessions == {"i0": "s1"}
    table.at(ms(2), lost())
    assert not table.shell.sessions


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (lost(), []),
        (joined(resident=WARM), []),
        (joined(resident=WARM, running=("t1",), latest_task=1), ["t1"]),
        (joined("i1"), ["t1"]),
        (reported(resident=WARM, latest_task=1), []),
        (reported(resident=WARM, latest_task=0), ["t1"]),
        (reported(resident=WARM, running=("t1",), latest_task=1), ["t1"]),
    ],
)
def test_the_orders_of_tasks_that_are_gone_are_forgotten(
    with_node: Table, said: Event, kept: list[str]
) -> None:
    with_node.at(0, arrived("r1", "thumb"), MEMO)
    with_node.at(ms(1), said)
    assert [task for task in with_node.shell.orders if task == "t1"] == kept
    assert set(with_node.shell.orders) == set(with_node.scheduler.state.tasks)


def test_a_request_that_is_cancelled_stops_its_task_whose_end_is_awaited(with_node: Table) -> None:
    with_node.at(0, arrived("r1", "thumb"), MEMO).at(ms(1), cancelled("r1"))
    assert [type(effect) for effect in with_node.effects] == [StopTask, TellAnswered]
    assert list(with_node.shell.orders) == ["t1"]
    with_node.at(ms(2), failed("t1", reason="stopped"))
    assert not with_node.shell.orders


def test_a_correction_of_profiles_is_an_effect(with_node: Table) -> None:
    seen: list[Effect] = []
    for number in range(8):
        with_node.at(ms(130 * number), arrived(f"r{number}"), MEMO)
        with_node.at(ms(130 * (number + 1)), finished(f"t{number + 1}", running_us=ms(130)))
        seen += with_node.of(CorrectProfiles)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "name", ["shell", "effects", "requests/request_log", "counters", "convert"]
)
def test_the_shell_imports_no_loop_no_clock_and_no_log(name: str) -> None:
    source = Path(esg.controller.__path__[0], f"{name}.py").read_text("utf-8")
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported.add(node.module.split(".")[0])
    assert not imported & {"asyncio", "grpc", "logging", "random", "threading", "time"}
