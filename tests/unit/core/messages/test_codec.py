"""Values as JSON and back: what it looks like, and what is refused."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import pytest

from esg.core.catalog.config import Config
from esg.core.messages.codec import decode, digest, encode, to_text
from esg.core.messages.commands import (
    AcceptApplication,
    AdmitRequest,
    AnswerRequest,
    Command,
    CorrectProfiles,
    Decision,
    DiscardData,
    DropInstance,
    PublishData,
    RecallStanding,
    RefusalKind,
    RefuseApplication,
    RefuseRequest,
    StageReport,
    StartTask,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import (
    EVENTS,
    ApplicationRegistered,
    ApplicationRetired,
    Correction,
    Event,
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerLeaving,
    InvokerLost,
    InvokerReported,
    JobFailure,
    MissingInput,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    RequestWanted,
    RunningTask,
    SliceInventory,
    StageSpec,
    TaskFailed,
    TaskFinished,
    Woke,
)
from esg.core.messages.outcome import Outcome
from esg.core.messages.task_order import JobOrder, Output, Payload, TaskOrder
from esg.core.search import Step
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import (
    ApplicationVersions,
    Job,
    Phase,
    Queue,
    Registrations,
    Request,
    StageRun,
    State,
    Task,
)
from esg.errors import Rejected

SLICES = (
    SliceInventory(memory_mb=10, resident=("f", "g")),
    SliceInventory(memory_mb=5, usable=False),
)
OUTPUT = Output(stage="s0", invoker="i1")
MISSING = MissingInput(request="r1", source=OUTPUT)
CORRECTIONS = (Correction(function="f", batch=2, pace_ppm=1_250_000),)
EVENT_SAMPLES: list[Event] = [
    RequestArrived(request="r1", application="app"),
    RequestArrived(request="Straße \u2028 \n\"'\\", application="", slo_us=-1),
    RequestCancelled(request="r1"),
    RequestWanted(request="r1"),
    ApplicationRegistered(
        application="app", stages=(StageSpec(name="s", function="f", after=("r",)),), slo_scale=1.5
    ),
    ApplicationRegistered(application="app", stages=(), slo_us=1),
    ApplicationRetired(application="app"),
    InvokerJoined(invoker="i0", vcpus=16, slices=SLICES, running=(RunningTask(task="t1"),)),
    InvokerReported(invoker="i0", slices=(), running=(), latest_task=2**70),
    InvokerLeaving(invoker="i0"),
    InvokerLost(invoker="i0"),
    TaskFinished(
        task="t1",
        invoker="i0",
        loading_us=0,
        running_us=5,
        failed=(JobFailure(request="r1", reason="not a picture"),),
    ),
    TaskFailed(task="t1", invoker="i0", reason="lost", missing=(MISSING,)),
    InstanceReady(invoker="i0", slice=0, function="f", loading_us=7),
    ProfilesCorrected(corrections=CORRECTIONS),
    InstanceGone(invoker="i0", slice=6, function="f", reason="idle"),
    Woke(),
]
REPORT = StageReport(
    stage="f",
    task="t1",
    invoker="i0",
    config=Config(2, 4, 1),
    ready_us=0,
    started_us=1,
    finished_us=2,
    cost_pusd=3,
)
ORDER = TaskOrder(
    task="t1",
    invoker="i0",
    stage="s",
    function="f",
    config=Config(2, 4, 1),
    slices=(3,),
    jobs=(JobOrder(request="r1", inputs=(Payload(key="@c0"), OUTPUT), publish=True),),
    keep=True,
    predicted_us=1000,
)
COMMAND_SAMPLES: list[Command] = [
    StartTask(order=ORDER, decision=Decision(application="app", effort=256, missed=False)),
    StopTask(invoker="i0", task="t1"),
    WarmInstance(invoker="i0", slice=0, function="f"),
    DropInstance(invoker="i0", slice=0, function="f"),
    PublishData(invoker="i0", request="r1", stage="s"),
    DiscardData(invoker="i0", request="r1"),
    AnswerRequest(
        request="r1",
        application="app",
        outcome=Outcome.CANCELLED,
        reason="cancelled",
        arrived_us=0,
        deadline_us=10,
        slo_met=False,
        cost_pusd=3,
        stages=(REPORT,),
    ),
    AcceptApplication(application="app", version=2),
    RefuseApplication(application="app", kind=RefusalKind.INVALID, reason="no stages"),
    AdmitRequest(request="r1", application="app", deadline_us=10),
    RefuseRequest(
        request="r1",
        application="app",
        kind=RefusalKind.UNKNOWN_APPLICATION,
        reason="no such application",
    ),
    CorrectProfiles(corrections=CORRECTIONS),
    RecallStanding(invoker="i0", task="t1"),
]


def busy_state() -> State:
    """A state with something in every place."""
    steps = (Step("f", Config(1, 1, 1)), Step("g", Config(8, 16, 7)))
    done = StageRun(Phase.DONE, 1, "t1", 1, ("i1",), steps, "i0", published=True, report=REPORT)
    node = NodeBooks.of("i0", 16, (10, 10))
    node.take("t2", "g", 4, Config(1, 2, 1), 7)
    state = State(now_us=7, tasks_started=2)
    state.requests["r1"] = Request("r1", "app", 1, 0, 100, {"f": done, "g": StageRun(Phase.QUEUED)})
    state.queues["app/g"] = Queue("app/g", "app", "g", [Job("r1", 1, 5, 100, steps[1:])])
    state.tasks["t2"] = Task("t2", 2, "i0", "app", "g", Config(1, 2, 1), (0,), ("r9",), 7)
    state.nodes["i0"] = node
    version = ApplicationRegistered(application="app", stages=(StageSpec(name="s", function="f"),))
    state.registrations = Registrations(
        {"app": ApplicationVersions(2, retired=True)}, {"app@2": version}
    )
    return state


# There and back.


def test_every_kind_of_event_and_command_is_among_the_samples() -> None:
    assert {type(event) for event in EVENT_SAMPLES} == set(EVENTS)
    assert {type(command) for command in COMMAND_SAMPLES} == set(get_args(Command))


@pytest.mark.parametrize("value", [*EVENT_SAMPLES, *COMMAND_SAMPLES, busy_state()])
def test_a_value_survives_the_way_through_text(value: Any) -> None:
    assert decode(type(value), json.loads(to_text(value))) == value
    assert json.loads(to_text(value)) == encode(value)


def test_text_is_compact_and_keeps_the_order_of_the_fields() -> None:
    event = TaskFailed(task="t1", invoker="i0", reason='a "b"\n')
    assert to_text(event) == '{"task":"t1","invoker":"i0","reason":"a \\"b\\"\\n","missing":[]}'
    assert to_text(Woke()) == "{}"
    assert to_text(REPORT).startswith(
        '{"stage":"f","task":"t1","invoker":"i0","config":[2,4,1,""],'
    )
    assert encode(COMMAND_SAMPLES[6])["outcome"] == "cancelled"


def test_fields_with_a_default_may_be_left_out() -> None:
    raw = {"request": "r1", "application": "app"}
    assert decode(RequestArrived, raw) == RequestArrived(request="r1", application="app")


def test_a_digest_tells_different_texts_apart_and_takes_any_text() -> None:
    texts = ["", "a", "b", "a\n", "\ud800"]
    assert len({digest(text) for text in texts}) == len(texts)


# Refusals.


def deep(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


READY: dict[str, Any] = {"invoker": "i0", "slice": 1, "function": "f"}
REFUSED: list[tuple[type, Any]] = [
    # wrong types, however close
    (InstanceReady, READY | {"slice": True}),
    (InstanceReady, READY | {"slice": "1"}),
    (InstanceReady, READY | {"slice": 1.0}),
    (InstanceReady, READY | {"slice": None}),
    (InstanceReady, READY | {"slice": [1]}),
    (InstanceReady, READY | {"invoker": 0}),
    (InstanceReady, READY | {"invoker": None}),
    (InstanceReady, READY | {"function": ["f"]}),
    (TaskOrder, encode(ORDER) | {"keep": 1}),
    (TaskOrder, encode(ORDER) | {"slices": 3}),
    (TaskOrder, encode(ORDER) | {"slices": {"0": 3}}),
    (JobOrder, {"request": "r1", "inputs": [{"stage": "s0", "invoker": "i1"}]}),
    # fields too many, fields too few
    (InstanceReady, READY | {"more": 1}),
    (InstanceReady, READY | {"": 1}),
    (InstanceReady, {"invoker": "i0", "slice": 1}),
    (Woke, {"at": 1}),
    # not an object at all
    *((kind, raw) for kind in (RequestCancelled, Woke) for raw in (None, [], "{}", 0, 0.5, True)),
    # rows of fixed length
    *((Config, raw) for raw in ([1, 1], [1, 1, 1, 1], [1, 1, "1"], [1, 1, None], "111", {}, None)),
    *((Step, raw) for raw in (["f"], ["f", [1, 1]], "fc", {"f": 1, "c": 2}, [["f"], [1, 1, 1]])),
    # enums
    *((Outcome, raw) for raw in ("Done", "DONE", "", None, 0, True, [], ["done"], {})),
    # inside
    (State, {"queues": []}),
    (State, {"queues": {"q": None}}),
    (State, {"requests": {"r": {"runs": {"f": {"phase": "lost"}}}}}),
    (State, {"nodes": {"i0": {"slices": [{"memory_mb": 1}]}}}),
    # too deep to even be told
    (InstanceReady, deep(100_000)),
    (InstanceReady, READY | {"slice": deep(100_000)}),
]


@pytest.mark.parametrize(("kind", "raw"), REFUSED, ids=lambda part: getattr(part, "__name__", ""))
def test_value_that_does_not_fit_its_type_is_refused(kind: type, raw: Any) -> None:
    with pytest.raises(Rejected, match=f"not a {kind.__name__}"):
        decode(kind, raw)


class Pair(NamedTuple):
    left: str
    right: str


@pytest.mark.parametrize("raw", ["ab", {"left": "a", "right": "b"}])
def test_row_that_is_no_list_is_refused(raw: Any) -> None:
    with pytest.raises(Rejected):
        decode(Pair, raw)


@pytest.mark.parametrize(
    "raw",
    [
        READY | {"__class__": "subprocess.Popen"},
        READY | {"__reduce__": ["os.system", ["true"]]},
        {"py/object": "esg.core.messages.events.InstanceReady"} | READY,
        {"InstanceReady": READY},
    ],
)
def test_decoded_type_is_not_chosen_by_the_wire(raw: Any) -> None:
    with pytest.raises(Rejected, match="unknown field"):
        decode(InstanceReady, raw)


def test_text_stays_text_whatever_it_says() -> None:
    text = "__import__('os').abort() # {0.__class__} %s ${HOME}"
    assert decode(RequestCancelled, {"request": text}).request == text


@dataclass
class Unsupported:
    number: complex


def test_a_type_the_codec_does_not_know_is_our_mistake_and_not_the_callers() -> None:
    with pytest.raises(TypeError):
        to_text(Unsupported(1j))
