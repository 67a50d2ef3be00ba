"""Requests are submitted: accepted, refused with a status, or recognised when they come again."""

import grpc
import pytest

from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from tests.support.controller_peers import (
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    put_application,
    refusal_code,
    running_controller,
    submission,
)
from tests.support.waiting import until


async def test_a_request_is_accepted_and_answered_once() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1", "photo"))
        for number in range(3):
            orders = await node.hears("start", number + 1)
            controller.clock[0] += 10_000
            node.say(finished(orders[number].start.task))
        (note,) = await door.hears("result")
        result = note.result
        assert [n.WhichOneof("note") for n in door.heard] == ["accepted", "result"]
        assert (result.outcome, result.slo_met) == (model.OUTCOME_DONE, True)
        assert [stage.stage for stage in result.stages] == ["resize", "detect", "label"]
        assert list(result.output_stages) == ["label"]
        assert (result.latency_us, result.slo_us) == (30_000, 600_000)
        assert result.cost_usd == pytest.approx(sum(s.cost_usd for s in result.stages))


@pytest.mark.parametrize("more", [{"request_id": "r" * 301}, {"owner": "o" * 301}])
async def test_a_name_that_no_node_would_take_is_refused(more: dict[str, str]) -> None:
    async with running_controller() as controller, gateway(controller) as door:
        note = submission("r1", "photo")
        for field, name in more.items():
            setattr(note.submission, field, name)
        door.say(note)
        (refused,) = await door.hears("refused")
        assert refusal_code(refused) == grpc.StatusCode.INVALID_ARGUMENT
        assert not controller.state.requests


@pytest.mark.parametrize(
    ("application", "more", "expected", "words"),
    [
        ("nothing", {}, grpc.StatusCode.NOT_FOUND, "thumb"),
        ("photo", {"slo_us": 1}, grpc.StatusCode.INVALID_ARGUMENT, "cannot be met"),
        ("photo", {"slo_us": -5}, grpc.StatusCode.INVALID_ARGUMENT, "cannot be met"),
    ],
)
async def test_impossible_submission_is_refused_with_a_reason(
    application: str, more: dict[str, int], expected: grpc.StatusCode, words: str
) -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", application, **more))
        (note,) = await door.hears("refused")
        assert refusal_code(note) is expected
        assert words in note.refused.message
        assert not controller.state.requests
        assert not any(of.served.due for of in controller.live.shell.counters.applications.values())


@pytest.mark.parametrize(
    ("more", "said"),
    [({"deadline_us": 50_000}, True), ({"deadline_us": 50_000, "slo_us": 40_000}, False)],
)
async def test_refusal_says_that_the_timeout_of_a_call_became_its_slo(
    more: dict[str, int], said: bool
) -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", "photo", **more))
        (note,) = await door.hears("refused")
        assert refusal_code(note) is grpc.StatusCode.INVALID_ARGUMENT
        assert ("the timeout of the call" in note.refused.message) is said


@pytest.mark.parametrize(
    ("more", "slo_us"),
    [
        ({}, 600_000),
        ({"deadline_us": 300_000}, 300_000),
        ({"deadline_us": 900_000}, 600_000),
        ({"deadline_us": 300_000, "slo_us": 250_000}, 250_000),
        ({"deadline_us": 300_000, "slo_us": 350_000}, 300_000),
    ],
)
async def test_a_deadline_that_is_shorter_than_the_slo_becomes_it(
    more: dict[str, int], slo_us: int
) -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", "photo", **more))
        await door.hears("accepted")
        request = controller.state.requests["r1"]
        assert request.deadline_us - request.arrived_us == slo_us


async def test_overloaded_controller_refuses_requests_with_a_time() -> None:
    async with running_controller(max_waiting=1) as controller, gateway(controller) as door:
        door.say(submission("r1", "photo"), submission("r2", "photo"))
        (note,) = await door.hears("refused")
        assert (note.request_id, refusal_code(note)) == ("r2", grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert "try again in 1000 ms" in note.refused.message
        assert note.refused.retry_after_us == 1_000_000
        assert controller.live.shell.counters.applications["photo"].served.overloaded == 1


async def test_a_request_of_an_application_that_drops_late_ones_is_dropped() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        stages = [model.Stage(function="resize")]
        drop = model.LATE_REQUESTS_DROP
        made = await put_application(
            controller.address, name="now", stages=stages, late_requests=drop
        )
        assert made.late_requests == drop
        door.say(submission("r1", "now"))  # takes 10 ms, which is its SLO, and there are no nodes
        await door.hears("accepted")
        controller.clock[0] += 1
        door.say(submission("r2", "photo"))
        (note,) = await door.hears("result")
        assert (note.request_id, note.result.outcome) == ("r1", model.OUTCOME_DROPPED)
        assert note.result.reason.startswith("dropped before resize")


async def test_a_submission_of_an_owners_own_application_is_left_as_it_came() -> None:
    async with running_controller() as controller:
        stages = [model.Stage(function="resize")]
        await put_application(controller.address, name="alice~tag", stages=stages)
        heard: list[wire.ControllerNote] = []
        received = submission("r1", "tag", owner="alice").submission
        before = received.SerializeToString()
        controller.live.gateways._submit(Hearing(heard), received)
        await until(lambda: heard)
        assert heard[0].accepted.application == "alice~tag"
        assert received.SerializeToString() == before


async def test_a_request_is_taken_from_its_owners_share() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("alice~r1", "photo", owner="alice"), submission("r2", "photo"))
        await door.hears("accepted", 2)
        requests = controller.state.requests
        assert {name: r.client for name, r in requests.items()} == {"alice~r1": "alice", "r2": ""}


class Hearing:
    """A follower that keeps what it hears."""

    session = "a gateway's"
    gone = False

    def __init__(self, heard: list[wire.ControllerNote]) -> None:
        self._heard = heard

    def put(self, note: wire.ControllerNote, *, lazily: bool = False) -> None:
        self._heard.append(note)


async def test_an_id_that_was_refused_may_be_tried_again() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", "nothing"))
        await door.hears("refused")
        door.say(submission("r1", "thumb", content_hash=b"2"))
        await door.hears("accepted")


async def test_repeated_submission_is_the_same_request() -> None:
    async with (
        running_controller() as controller,
        gateway(controller) as door,
        gateway(controller) as other,
    ):
        door.say(submission("r1"))
        await door.hears("accepted")
        other.say(submission("r1"))
        (note,) = await other.hears("accepted")
        assert note.accepted.repeated
        assert controller.state.requests_admitted == 1
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            (order,) = await node.hears("start")
            node.say(finished(order.start.task))
            assert await door.hears("result") == await other.hears("result")
        other.say(submission("r1"))
        assert len(await other.hears("result", 2)) == 2
        assert controller.state.requests_admitted == 1


async def test_an_id_with_other_content_is_refused() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1"), submission("r1", content_hash=b"2"))
        (note,) = await door.hears("refused")
        assert refusal_code(note) is grpc.StatusCode.ALREADY_EXISTS
        assert "r1" in controller.state.requests
